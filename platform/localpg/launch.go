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
	// slowStart is the time after which a start reports that it takes long.
	slowStart = 3 * time.Second
	// guardGrace is how long the guard lets the server shut down in order before SIGKILL.
	guardGrace = 20 * time.Second
)

var (
	errPortTaken = errors.New("the port is taken")
	errNotYet    = errors.New("processes of the last run are still ending")
)

// launch starts the server's process on s.port and waits until it takes connections. It
// returns errPortTaken when another process has the port.
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

// attempt starts the server's process once.
func (s *Server) attempt(ctx context.Context) error {
	log, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own copy
	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
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

// await returns when the server takes connections. It connects only once postmaster.pid says that
// the server is ready, because until then another process may listen on the port, and not answer.
func (s *Server) await(ctx context.Context, proc *guard.Process) error {
	connector, err := pq.NewConnector(s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the new PostgreSQL server: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	slow := time.AfterFunc(slowStart, func() {
		s.opts.sayf("PostgreSQL is still starting; after a crash it recovers from its log first (messages: %s)",
			s.LogFile())
	})
	defer slow.Stop()
	err = proc.Await(ctx, func(ctx context.Context) error {
		if !postmasterReady(dataDir(s.dir), proc.PID()) {
			return errors.New("it is still starting")
		}
		return db.PingContext(ctx)
	})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// explain replaces guard.ErrEnded by what the server itself logged since offset.
func (s *Server) explain(err error, offset int64) error {
	if !errors.Is(err, guard.ErrEnded) {
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

// shellQuote quotes a word for a POSIX shell.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
