// Package localpg finds a PostgreSQL server, or fetches one, and runs it privately: a cluster of its own in one folder, on a free port
// of 127.0.0.1, behind a random password, with PostgreSQL's defaults except max_connections=400. It is what `rowlock up`, the
// benchmark and the tests stand on, so that none of them needs Docker, root, or anything set up before.
//
// For root, whom PostgreSQL refuses, the server runs as the user postgres or nobody. A server never outlives the process that started
// it: package guard stops it when that process is killed, and when guard and process were killed together, the next Start in the
// same folder stops what they left. Unix only.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// Server is a PostgreSQL server that belongs to this process. Its methods may be called from several goroutines; those that change
// whether it runs take turns.
type Server struct {
	opts     Options
	dir      string
	bin      installation
	who      *account
	password string
	lock     *os.File

	turn sync.Mutex // held by Stop, Kill, Crash and Restart
	port atomic.Int64
	proc atomic.Pointer[guard.Process]
}

// Start makes the cluster in o.Dir unless it is there and starts its server. It returns when the server takes connections; it gives
// up when ctx is done, at the latest after two minutes. ErrInUse (by errors.Is) says that another process runs this folder.
func Start(ctx context.Context, o Options) (*Server, error) {
	o, err := o.prepared()
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := home(o, who)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, dir: dir, who: who, lock: lock}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// begin is the part of Start that needs the lock.
func (s *Server) begin(ctx context.Context) error {
	if err := reapOrphan(ctx, s.opts, dataDir(s.dir)); err != nil {
		return err
	}
	if s.opts.Fresh {
		if err := forget(s.opts, s.dir); err != nil {
			return err
		}
	}
	bin, err := programs(ctx, s.opts, s.dir, s.who)
	if err != nil {
		return err
	}
	s.bin = bin
	if s.password, err = initialise(ctx, s.opts, s.dir, bin.binDir, s.who, s.lock); err != nil {
		return err
	}
	port, fixed, err := choosePort(ctx, s.opts, s.dir)
	if err != nil {
		return err
	}
	as := ""
	if s.who != nil {
		as = ", as user " + s.who.name + " because PostgreSQL refuses root"
	}
	s.opts.sayf("Starting PostgreSQL %d.%d from %s%s", bin.major, bin.minor, bin.binDir, as)
	s.port.Store(int64(port))
	// Somebody may take a free port before the server does.
	for err = s.launch(ctx); errors.Is(err, errPortTaken) && !fixed; err = s.launch(ctx) {
		if port, err = FreePort(ctx); err != nil {
			return err
		}
		s.port.Store(int64(port))
	}
	if err != nil {
		return err
	}
	return s.remember()
}

// remember writes down the port for the next start.
func (s *Server) remember() error {
	return writePrivate(portFile(s.dir), fmt.Sprintln(s.Port()), nil)
}

// URL is the address of a database of this server, for lib/pq and everything that speaks libpq's URLs, with the superuser's name and
// password in it.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, s.password),
		Host:     address(s.Port()),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the server's port on 127.0.0.1. A restart keeps it.
func (s *Server) Port() int { return int(s.port.Load()) }

// Dir is the folder with everything of this server: Options.Dir, or for root what took its place.
func (s *Server) Dir() string { return s.dir }

// BinDir is the folder with the server's programs; where the server came from a package, pgbench and psql are there too.
func (s *Server) BinDir() string { return s.bin.binDir }

// LogFile is the file that the server writes its messages to.
func (s *Server) LogFile() string { return logFile(s.dir) }

// PID is the process id of the server's first process (the postmaster), running or last run.
func (s *Server) PID() int { return s.proc.Load().PID() }

// Done is closed when the server that runs now, or ran last, has ended, for whatever reason. After a Restart there is a new one.
func (s *Server) Done() <-chan struct{} { return s.proc.Load().Done() }

// Command is what starts the server by hand on the same port, without the program that made it: for a look at data that a failed
// test left. It is one line for a shell.
func (s *Server) Command() string {
	words := append([]string{filepath.Join(s.bin.binDir, "postgres")}, s.opts.command(dataDir(s.dir), s.Port())...)
	for i, word := range words {
		words[i] = shellQuote(word)
	}
	line := strings.Join(words, " ")
	if s.who != nil {
		return "su -s /bin/sh " + s.who.name + " -c " + shellQuote(line)
	}
	return line
}

// The server's own signals, see "Shutting Down the Server" in PostgreSQL's manual.
const (
	fastShutdown      = syscall.SIGINT  // roll back, disconnect, checkpoint, end
	immediateShutdown = syscall.SIGQUIT // end without a checkpoint; the next start recovers from the log
)

// Stop shuts the server down in order, disconnecting its clients, and gives the folder free. When ctx ends first, the server is
// ended at once instead: what was committed is safe either way. A stopped server is no error.
func (s *Server) Stop(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return errors.Join(s.end(ctx), s.release())
}

// release gives the lock of the folder back. The open file is closed once.
func (s *Server) release() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	if err := lock.Close(); err != nil {
		return fmt.Errorf("release the data folder: %w", err)
	}
	return nil
}

// end sends the signals of a shutdown, each sharper than the one before.
func (s *Server) end(ctx context.Context) error {
	proc := s.proc.Load()
	if err := proc.Signal(fastShutdown); err != nil {
		return err
	}
	select {
	case <-proc.Done():
		return nil
	case <-ctx.Done():
	}
	if err := proc.Signal(immediateShutdown); err != nil {
		return err
	}
	select {
	case <-proc.Done():
		return nil
	case <-time.After(immediateLimit):
	}
	return s.crash(context.WithoutCancel(ctx), proc)
}

// immediateLimit is how long an immediate shutdown may take. PostgreSQL itself kills what is left after 5 s.
const immediateLimit = 7 * time.Second

// Kill ends the server immediately (SIGQUIT): clients are cut off in the middle, and the next start recovers from the log, losing
// nothing that was committed with synchronous_commit. It returns when the server is gone. Restart brings it back.
func (s *Server) Kill() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	proc := s.proc.Load()
	if err := proc.Signal(immediateShutdown); err != nil {
		return err
	}
	select {
	case <-proc.Done():
		return nil
	case <-time.After(immediateLimit):
		return s.crash(context.Background(), proc)
	}
}

// Crash kills all of the server's processes at once with SIGKILL, as when the machine's memory runs out: no message to clients,
// a postmaster.pid left behind. It returns when they are gone. Restart brings the server back.
func (s *Server) Crash() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.crash(context.Background(), s.proc.Load())
}

func (s *Server) crash(ctx context.Context, proc *guard.Process) error {
	select {
	case <-proc.Done():
		return nil
	default:
	}
	// The postmaster first, or it would notice its children die. Without it they would end by themselves, but only when they next wait.
	backends, err := children(ctx, proc.PID())
	if err := errors.Join(err, proc.Signal(syscall.SIGKILL)); err != nil {
		return err
	}
	for _, pid := range backends {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of the server: %w", pid, err)
		}
	}
	<-proc.Done()
	return nil
}

// Restart stops the server in order, if it runs, and starts it again on the same port, as soon as that is free. It returns when the
// server takes connections again. A server that was given up by Stop cannot be restarted.
func (s *Server) Restart(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.lock == nil {
		return errors.New("the server was stopped and its folder given free: start a new one")
	}
	if err := s.end(ctx); err != nil {
		return err
	}
	for {
		err := s.launch(ctx)
		if !errors.Is(err, errPortTaken) {
			return err
		}
		if pauseErr := pause(ctx, 50*time.Millisecond); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
	}
}

// Remove removes the folder of a server that does not run, with everything in it; what is left of a killed run is stopped first.
// ErrInUse (by errors.Is) says that another process runs it.
func Remove(ctx context.Context, dir string) error {
	if !exists(lockFile(dir)) && !exists(dataDir(dir)) {
		return fmt.Errorf("%s is not the folder of a private server", dir)
	}
	lock, err := acquire(ctx, dir)
	if err != nil {
		return err
	}
	o, err := Options{Dir: dir}.prepared()
	if err == nil {
		err = reapOrphan(ctx, o, dataDir(dir))
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return errors.Join(err, lock.Close())
}
