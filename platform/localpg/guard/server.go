package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// startLimit bounds a start, including recovery from a crash.
	startLimit = 2 * time.Minute
	// killLimit bounds Config.Kill. PostgreSQL kills its remaining processes after 5 s.
	killLimit = 7 * time.Second
	// takenPause is the time between two attempts to take a port, readyPause between two calls of Ready.
	takenPause = 50 * time.Millisecond
	readyPause = 10 * time.Millisecond
)

// Config describes a server program that listens on one port of 127.0.0.1.
type Config struct {
	// Name is the server's name in errors.
	Name string
	// Spec prepares a start on the port and returns what to run. The output goes to LogFile.
	Spec func(port int) (Spec, error)
	// LogFile is the file to which the server's messages are appended.
	LogFile string
	// Ready returns nil when the server accepts connections. It is called repeatedly until then.
	Ready func(ctx context.Context) error
	// Stop ends the server in order, Kill immediately.
	Stop, Kill syscall.Signal
}

// Server is a guarded server program. Its methods are safe for concurrent use; those that start or
// end the program run one at a time.
type Server struct {
	config  Config
	port    atomic.Int64
	process atomic.Pointer[Process]

	mu      sync.Mutex // held by whatever starts or ends the program
	stopped bool       // permanently
}

// NewServer returns a server that does not run yet.
func NewServer(config Config) *Server { return &Server{config: config} }

// Start starts the program on port, or on another port if that is 0 or taken. It returns when the
// server accepts connections, or with an error when ctx ends, after two minutes at the latest.
func (s *Server) Start(ctx context.Context, port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port.Store(int64(port))
	return s.start(ctx, func() { s.port.Store(0) })
}

// Restart stops the server in order, if it runs, and starts it again on the same port, as soon as
// that is free. It returns when the server accepts connections again. After Stop it fails.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("%s was stopped for good: start a new one", s.config.Name)
	}
	if err := s.end(ctx); err != nil {
		return err
	}
	return s.start(ctx, func() {})
}

// start launches the program until its port is not taken. After each attempt that found it taken, it
// calls taken.
func (s *Server) start(ctx context.Context, taken func()) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := s.launch(ctx)
		if !errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-time.After(takenPause):
			taken()
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// launch starts the program once and waits until the server accepts connections. It returns errTaken
// if another process has the port.
func (s *Server) launch(ctx context.Context) error {
	if s.Port() == 0 {
		port, err := FreePort(ctx)
		if err != nil {
			return err
		}
		s.port.Store(int64(port))
	}

	spec, err := s.config.Spec(s.Port())
	if err != nil {
		return err
	}

	err = logged(s.config.LogFile, func(log *os.File) error {
		spec.Output = log
		process, err := Start(spec)
		if err != nil {
			return err
		}
		s.process.Store(process)
		if err := s.await(ctx); err != nil {
			return errors.Join(err, s.kill())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s.config.Name, err)
	}
	return nil
}

// await returns when the server accepts connections, or with an error when the program or ctx ends.
func (s *Server) await(ctx context.Context) error {
	for {
		err := s.config.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(readyPause):
		case <-s.Done():
			return errors.New("the program has ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not accept connections: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// Port returns the server's port on 127.0.0.1. A restart keeps it.
func (s *Server) Port() int { return int(s.port.Load()) }

// Address returns the server's host and port.
func (s *Server) Address() string { return address(s.Port()) }

// PID returns the process id of the current or last run.
func (s *Server) PID() int { return s.process.Load().PID() }

// LogFile returns the file with the server's messages.
func (s *Server) LogFile() string { return s.config.LogFile }

// Done returns a channel that is closed when the current or last run of the program has ended for any
// reason. After a Restart it returns another channel.
func (s *Server) Done() <-chan struct{} { return s.process.Load().Done() }

// Stop ends the server permanently: in order, or immediately if ctx ends first.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.end(ctx)
}

// Kill ends the server immediately and returns when it has ended. Restart starts it again.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Crash ends the program with SIGKILL and returns when it has ended. Its child processes may still run. Restart starts
// it again.
func (s *Server) Crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Load().End(context.Background(), syscall.SIGKILL)
}

// end ends the server in order, or immediately if ctx ends first.
func (s *Server) end(ctx context.Context) error {
	err := s.process.Load().End(ctx, s.config.Stop)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return s.kill()
}

// kill ends the program with Config.Kill, and with SIGKILL if that takes too long.
func (s *Server) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	process := s.process.Load()

	err := process.End(ctx, s.config.Kill)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return process.End(context.Background(), syscall.SIGKILL)
}
