// Package localpg finds or downloads a PostgreSQL server and runs it privately: a cluster of its
// own in one folder, on a free port of 127.0.0.1, with a random password and PostgreSQL's defaults
// except max_connections=400. `rowlock up`, the benchmark and the tests use it, so that none of them
// needs Docker, root, or a prepared server.
//
// When root runs it, the server runs as the user postgres or the user nobody, because PostgreSQL refuses
// root. A server never outlives the process that started it: package guard stops it when that
// process is killed, and when guard and process were killed together, the next Start in the same
// folder stops the remaining server. Unix only.
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

// Server is a PostgreSQL server that belongs to this process. Its methods are safe for concurrent
// use; those that start or end the server run one at a time.
type Server struct {
	opts     Options
	dir      string
	bin      installation
	who      *account
	password string
	lock     *os.File

	mu   sync.Mutex // held by Stop, Kill, Crash and Restart
	port atomic.Int64
	proc atomic.Pointer[guard.Process]
}

// Start makes the cluster in o.Dir unless it exists and starts its server. It returns when the
// server takes connections, or with an error when ctx ends, at the latest after two minutes. It
// returns ErrInUse when another process runs a server in this folder.
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

// begin runs the part of Start that needs the lock.
func (s *Server) begin(ctx context.Context) error {
	if err := reapOrphan(ctx, s.opts, dataDir(s.dir)); err != nil {
		return err
	}
	if s.opts.Fresh {
		if err := removeCluster(s.opts, s.dir); err != nil {
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
	as := ""
	if s.who != nil {
		as = ", as user " + s.who.name + " because PostgreSQL refuses root"
	}
	s.opts.sayf("Starting PostgreSQL %d.%d from %s%s", bin.major, bin.minor, bin.binDir, as)
	port := readNumber(portFile(s.dir))
	if port != 0 && !portFree(ctx, port) {
		s.opts.sayf("Port %d, where PostgreSQL was last time, is taken: another one is used", port)
		port = 0
	}
	// Another process may take a free port before the server does.
	for err = errPortTaken; errors.Is(err, errPortTaken); port = 0 {
		if port == 0 {
			if port, err = FreePort(ctx); err != nil {
				return err
			}
		}
		s.port.Store(int64(port))
		err = s.launch(ctx)
	}
	if err != nil {
		return err
	}
	return writePrivate(portFile(s.dir), fmt.Sprintln(s.Port()), nil)
}

// URL returns the URL of a database of this server, with the superuser's name and password, for
// lib/pq and every other program that reads libpq's URLs.
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

// Port returns the server's port on 127.0.0.1. A restart keeps it.
func (s *Server) Port() int { return int(s.port.Load()) }

// Dir returns the folder that holds everything of this server: Options.Dir, or its replacement
// when root runs it.
func (s *Server) Dir() string { return s.dir }

// BinDir returns the folder of the server's programs. An installed package has pgbench and psql
// there too.
func (s *Server) BinDir() string { return s.bin.binDir }

// LogFile returns the file that the server writes its messages to.
func (s *Server) LogFile() string { return logFile(s.dir) }

// PID returns the process id of the postmaster, running or last run.
func (s *Server) PID() int { return s.proc.Load().PID() }

// Done returns a channel that is closed when the server that runs now, or ran last, has ended for
// any reason. After a Restart it returns another channel.
func (s *Server) Done() <-chan struct{} { return s.proc.Load().Done() }

// Command returns a shell command that starts the stopped server by hand on the same port, to
// inspect the data of a failed test.
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

// Stop shuts the server down in order, disconnecting its clients, and releases the folder. When ctx
// ends first, it ends the server at once instead: what was committed is safe either way. A second
// Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.end(ctx)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// end shuts the server down in order, or at once when ctx ends first.
func (s *Server) end(ctx context.Context) error {
	if err := s.proc.Load().End(ctx, fastShutdown); err == nil || ctx.Err() == nil {
		return err
	}
	return s.endNow()
}

// immediateLimit bounds an immediate shutdown. PostgreSQL itself kills the remaining processes
// after 5 s.
const immediateLimit = 7 * time.Second

// endNow ends the server immediately, and kills it when that takes too long.
func (s *Server) endNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), immediateLimit)
	defer cancel()
	if err := s.proc.Load().End(ctx, immediateShutdown); err == nil || ctx.Err() == nil {
		return err
	}
	return s.crash()
}

// Kill ends the server immediately (SIGQUIT): clients are disconnected, and the next start recovers
// from the log, losing nothing that was committed with synchronous_commit. It returns when the
// server has ended. Restart starts it again.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endNow()
}

// Crash kills all of the server's processes with SIGKILL, as when the machine's memory runs out:
// clients get no message, and postmaster.pid stays. It returns when they have ended. Restart starts
// the server again.
func (s *Server) Crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crash()
}

func (s *Server) crash() error {
	proc := s.proc.Load()
	select {
	case <-proc.Done():
		return nil
	default:
	}
	// The postmaster first, or it would handle the end of its children. Without it they would end
	// by themselves, but only when they next wait.
	backends, err := children(context.Background(), proc.PID())
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

// Restart stops the server in order, if it runs, and starts it again on the same port, as soon as
// that is free. It returns when the server takes connections again. After Stop it fails.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return errors.New("the server was stopped and its folder released: start a new one")
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

// Remove removes the folder of a server that does not run, with everything in it, after stopping
// the remaining processes of a killed run. It returns ErrInUse when another process runs it.
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
