// Package guard runs a server program as a child that cannot outlive the process that started it.
//
// A child that is only waited for survives a kill -9 of its parent: it keeps its port, its memory and its files, and nobody is left
// to stop it. Here a second child, a few lines of shell in a session of its own, reads from a pipe whose other end the parent holds.
// The kernel closes that end whichever way the parent dies, and the guard stops the server in the parent's place. Linux' parent death
// signal would need no guard, but exists only there, and is tied to a thread instead of a process (golang/go#27505).
package guard

import (
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

// watchScript is what the guard runs, announceScript what the server's process runs before it becomes the server.
//
//go:embed watch.sh
var watchScript string

// announceScript tells the guard the process id from within that very process: there is no moment in which the server runs and the
// guard does not know it, even when the parent dies between fork and the next line.
const announceScript = `echo $$ >&3; exec 3>&-; exec "$@"`

const shell = "/bin/sh"

// defaultGrace is how long a server may take to end after the guard's signal.
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
	// Output takes the program's standard output and error; nil throws them away. It is a file on purpose: with a pipe the program
	// would die of its first line after the parent's death, instead of stopping in order.
	Output *os.File
	// User is whom the program runs as; nil: as the caller.
	User *syscall.Credential
	// Stop is the signal by which the guard ends the program when the parent is gone; zero: SIGTERM.
	Stop syscall.Signal
	// Grace is how long the guard waits after Stop before SIGKILL, in whole seconds; zero: 10 s.
	Grace time.Duration
	// Remove names a folder that the guard removes after the parent's death and the program's end; empty: none.
	Remove string
	// Hold is an open file that the guard keeps open as long as it lives; with it a lock of flock(2), which belongs to the open file:
	// so whoever takes the lock next knows that the guard is done too. Nil: none.
	Hold *os.File
}

// Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; to be read after done
}

// Start starts the guard and then the program. Neither is tied to a context: the program runs until it ends, is signalled, or this
// process dies. Both are in sessions of their own, so that Ctrl-C at the terminal reaches the caller alone, who then stops things in
// order.
func Start(spec Spec) (*Process, error) {
	watch, pipe, err := startWatch(spec)
	if err != nil {
		return nil, err
	}

	//nolint:gosec // running the program that the caller names is what this package is for
	cmd := exec.CommandContext(context.Background(), shell,
		append([]string{"-c", announceScript, shell, spec.Path}, spec.Args...)...)
	cmd.Env = spec.Env
	cmd.Dir = spec.Dir
	if spec.Output != nil {
		cmd.Stdout, cmd.Stderr = spec.Output, spec.Output
	}
	cmd.ExtraFiles = []*os.File{pipe}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: spec.User}
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

// startWatch starts the guard itself and returns the end of the pipe that keeps it waiting.
func startWatch(spec Spec) (*exec.Cmd, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe for the guard of %s: %w", spec.Path, err)
	}
	defer func() { _ = read.Close() }()

	stop := spec.Stop
	if stop == 0 {
		stop = syscall.SIGTERM
	}
	grace := spec.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	//nolint:gosec // the script is a constant; what varies goes in as arguments, which the shell does not interpret
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

// dismiss sends the guard away: the program has ended (or never began), so its process id may soon mean somebody else. A guard that
// was killed meanwhile is away too, so no error is worth a caller's attention.
func dismiss(watch *exec.Cmd, pipe *os.File) {
	_, _ = pipe.WriteString("done\n")
	_ = pipe.Close()
	_ = watch.Wait()
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended and its guard is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the program ended: nil for status 0, else an *exec.ExitError. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends sig. A program that has ended already is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to process %d: %w", sig, p.PID(), err)
	}
	return nil
}
