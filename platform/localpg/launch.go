package localpg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

const (
	// startLimit bounds a start, recovery from a crash included.
	startLimit = 2 * time.Minute
	// slowStart is when a start is long enough to say why.
	slowStart = 3 * time.Second
	// guardGrace is how long the guard lets the server shut down in order before SIGKILL.
	guardGrace = 20 * time.Second
	// logLimit is the size in bytes at which a start puts the log aside.
	logLimit = 16 << 20
)

var (
	errPortTaken = errors.New("the port is taken")
	errNotYet    = errors.New("processes of the last run are still ending")
)

// launch starts the server's process on s.port and waits until it takes connections. errPortTaken (by errors.Is): somebody else has
// the port.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := s.attempt(ctx)
		if !errors.Is(err, errNotYet) {
			return err
		}
		if pauseErr := pause(ctx, 50*time.Millisecond); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
	}
}

// attempt is one try of launch.
func (s *Server) attempt(ctx context.Context) error {
	log, offset, err := openLog(s.dir)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own copy

	spec := guard.Spec{
		Path:   filepath.Join(s.bin.binDir, "postgres"),
		Args:   s.opts.command(dataDir(s.dir), s.Port()),
		Env:    s.opts.serverEnv(),
		Dir:    "/",
		Output: log,
		User:   s.who.credential(),
		Stop:   fastShutdown,
		Grace:  guardGrace,
		Hold:   s.lock,
	}
	if s.opts.Temporary {
		spec.Stop, spec.Remove = immediateShutdown, s.dir
	}
	proc, err := guard.Start(spec)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.proc.Store(proc)
	if err := s.await(ctx, proc); err != nil {
		if endErr := s.end(ctx); endErr != nil {
			return errors.Join(err, endErr)
		}
		return s.explain(err, offset)
	}
	return nil
}

// errEnded says that the server's process ended before it took connections; explain finds out why.
var errEnded = errors.New("PostgreSQL ended during its start")

// await returns when the server takes connections.
func (s *Server) await(ctx context.Context, proc *guard.Process) error {
	slow := time.NewTimer(slowStart)
	defer slow.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !postmasterReady(dataDir(s.dir), proc.PID()) {
		select {
		case <-tick.C:
		case <-proc.Done():
			return errEnded
		case <-slow.C:
			s.opts.sayf("PostgreSQL is still starting; after a crash it recovers from its log first (messages: %s)", s.LogFile())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not take connections: %w", ctx.Err())
		}
	}
	return s.greet(ctx)
}

// greet connects once: whoever gets the server's URL can use it.
func (s *Server) greet(ctx context.Context) error {
	connector, err := pq.NewConnector(s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the new PostgreSQL server: %w", err)
	}
	db := sql.OpenDB(connector)
	if err := errors.Join(db.PingContext(ctx), db.Close()); err != nil {
		return fmt.Errorf("connect to the new PostgreSQL server: %w", err)
	}
	return nil
}

// openLog opens the server's log for appending and returns where the next message will be. A log that has grown is put aside.
func openLog(dir string) (*os.File, int64, error) {
	path := logFile(dir)
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, fmt.Errorf("put the server's old log aside: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // a name of ours in the data folder
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	offset, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the server's log: %w", err), file.Close())
	}
	return file, offset, nil
}

// explain replaces errEnded by what the server itself said since offset.
func (s *Server) explain(err error, offset int64) error {
	if !errors.Is(err, errEnded) {
		return err
	}
	text := readFile(s.LogFile())
	text = text[min(int(offset), len(text)):]
	switch {
	case strings.Contains(text, "Address already in use"):
		return fmt.Errorf("%w: %s", errPortTaken, address(s.Port()))
	case strings.Contains(text, "pre-existing shared memory block"):
		return errNotYet
	}
	var reasons []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "FATAL:") || strings.Contains(line, "ERROR:") || strings.Contains(line, "PANIC:") {
			reasons = append(reasons, strings.TrimSpace(line))
		}
	}
	if len(reasons) == 0 {
		reasons = []string{lastLine(text)}
	}
	return fmt.Errorf("%w: %s (messages: %s)", err, strings.Join(reasons, "; "), s.LogFile())
}

// shellQuote makes one word of it for a POSIX shell.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
