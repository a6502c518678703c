// Package guard runs a server program as a child that cannot outlive the process that started it.
//
// A child process survives a kill -9 of its parent: it keeps its port, its memory and its files, and
// no process stops it. So a second child, a few lines of shell in a separate session, reads from a pipe
// whose other end the parent holds. The kernel closes that end however the parent dies, and then the
// guard stops the server in the parent's place. Linux' parent death signal would need no guard, but
// exists only there, and belongs to a thread instead of a process (golang/go#27505).
//
// [Start] runs any program. [Server] runs one that listens on a port, and can be stopped and started
// again. Both run it as an ordinary user if root is the caller, see [Unprivileged].
package guard

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// watchScript is the guard's program.
//
//go:embed watch.sh
var watchScript string

// announceScript sends its process id to the guard and then becomes the server. So the guard knows
// every running server, even if the parent dies right after fork.
const announceScript = `echo $$ >&3; exec 3>&-; exec "$@"`

const shell = "/bin/sh"

// defaultGrace bounds the time that a server takes to end after the guard's signal.
const defaultGrace = 10 * time.Second

// Spec says what to run.
type Spec struct {
	// Path is the program, Args its arguments without the program's name.
	Path string
	Args []string
	// Env is the whole environment of the program, as "NAME=value".
	Env []string
	// Dir is the program's working directory.
	Dir string
	// Output receives the program's standard output and error; nil discards them. It is a file
	// because with a pipe the program's first line after the parent's death would kill it, instead
	// of letting it stop in order.
	Output *os.File
	// User is the account that runs the program; nil: the caller's.
	User *User
	// Stop is the signal by which the guard ends the program after the parent's death; zero: SIGTERM.
	Stop syscall.Signal
	// Grace is the time that the guard waits after Stop before SIGKILL, in whole seconds; zero: 10 s.
	Grace time.Duration
	// Remove names a folder that the guard removes after the parent's death and the program's end;
	// empty: none.
	Remove string
	// Hold is an open file with a lock of flock(2). The guard, the program and the program's children
	// keep it open, and with it the lock, until they end: the next holder of the lock knows that all
	// of them have ended. Nil: none.
	Hold *os.File
}

// Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; valid after done
}

// Start starts the guard and then the program. The program runs until it ends, is signalled, or this
// process dies; it is not bound to a context. Guard and program have separate sessions, so that Ctrl-C
// at the terminal reaches only the caller, which then stops them in order.
func Start(spec Spec) (*Process, error) {
	watch, pipe, err := startWatch(spec)
	if err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(context.Background(), shell,
		append([]string{"-c", announceScript, shell, spec.Path}, spec.Args...)...)
	cmd.Env = spec.Env
	cmd.Dir = spec.Dir
	if spec.Output != nil {
		cmd.Stdout, cmd.Stderr = spec.Output, spec.Output
	}
	cmd.ExtraFiles = []*os.File{pipe}
	if spec.Hold != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, spec.Hold)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: spec.User.credential()}
	if err := cmd.Start(); err != nil {
		dismiss(watch, pipe)
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}

	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
		dismiss(watch, pipe)
	}()
	return p, nil
}

// startWatch starts the guard and returns the end of the pipe that keeps it waiting.
func startWatch(spec Spec) (*exec.Cmd, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe for the guard of %s: %w", spec.Path, err)
	}
	defer func() { _ = read.Close() }()

	stop, grace := cmp.Or(spec.Stop, syscall.SIGTERM), cmp.Or(spec.Grace, defaultGrace)
	watch := exec.CommandContext(context.Background(), shell, "-c", watchScript, "guard",
		strconv.Itoa(int(stop)), strconv.Itoa(int(grace/time.Second)), spec.Remove)
	watch.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	watch.Dir = "/"
	watch.Stdin = read
	if spec.Hold != nil {
		watch.ExtraFiles = []*os.File{spec.Hold}
	}
	watch.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := watch.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the guard of %s: %w", spec.Path, err), write.Close())
	}
	return watch, write, nil
}

// dismiss ends the guard after the program has ended (or never started), because the system may reuse
// its process id. It ignores errors: a guard that was killed has ended too.
func dismiss(watch *exec.Cmd, pipe *os.File) {
	_, _ = pipe.WriteString("done\n")
	_ = pipe.Close()
	_ = watch.Wait()
}

// PID returns the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the program and its guard have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the program's end and returns nil for status 0, else an *exec.ExitError.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends sig. It returns nil if the program has already ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to process %d: %w", sig, p.PID(), err)
	}
	return nil
}

// End sends sig and waits for the program's end. It returns ctx's error if ctx ends first.
func (p *Process) End(ctx context.Context, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
