package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ErrInUse means that another process runs the server of a data folder, or is just stopping it.
var ErrInUse = errors.New("the data folder is in use")

const (
	// ownerWait bounds acquire's wait for the owner: a process that is being forked holds all
	// open files of its parent for a moment.
	ownerWait = time.Second
	// orphanWait bounds acquire's wait for the server of a dead owner. The server's guard waits less.
	orphanWait = guardGrace + 5*time.Second
	// orphanGrace is the time that a server without a guard gets to shut down in order.
	orphanGrace = 15 * time.Second
	lockPause   = 20 * time.Millisecond
)

// locks holds the locks of a data folder, which are locks of flock(2): the kernel releases a lock when the
// last process with the open file has ended, so kill -9 does not leave it locked.
type locks struct {
	owner   *os.File // held only by this process
	running *os.File // also held by the guard, the server and its children
}

// acquire locks a data folder for this process: no other process owns it, and no process of the cluster
// still runs. It stops a server whose owner is dead, as the guard does, which may have been killed too.
// It does not reuse that server: its port, settings and version come from another start, and it is no
// child of ours, for whose end we could wait.
func acquire(ctx context.Context, o Options, dir string) (*locks, error) {
	owner, err := awaitLock(ctx, lockFile(dir), ownerWait, func(time.Duration) {})
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("%w: %s, by process %d", ErrInUse, dir, readNumber(lockFile(dir)))
	}
	if err != nil {
		return nil, err
	}

	// A killed owner's server may still run.
	said := 0
	running, err := awaitLock(ctx, runningFile(dir), orphanWait, func(waited time.Duration) {
		pid := readNumber(postmasterFile(dir))
		if pid <= 0 {
			return // the lock's holder is initdb, which its guard kills
		}
		if pid != said {
			o.sayf("Stopping PostgreSQL (process %d), left over from a run that was killed", pid)
			said = pid
		}

		sig := fastShutdown
		if waited > orphanGrace {
			sig = immediateShutdown
		}
		_ = syscall.Kill(pid, sig) // fails if it has just ended; the lock tells
	})

	l := &locks{owner, running}
	if err == nil {
		err = os.RemoveAll(postmasterFile(dir)) // PostgreSQL refuses to start if another process has its process id now
	}
	if err != nil {
		l.release()
		return nil, fmt.Errorf("clean up after a killed server: %w", err)
	}
	return l, nil
}

// renew waits until all processes of a killed server have ended, which takes longer than the postmaster's end, and
// locks the folder for the next start.
func (l *locks) renew(ctx context.Context, dir string) error {
	_ = l.running.Close() // our descriptor; the other processes keep theirs while they run
	running, err := awaitLock(ctx, runningFile(dir), orphanWait, func(time.Duration) {})
	if err != nil {
		return fmt.Errorf("wait for the processes of a killed server: %w", err)
	}
	l.running = running
	return os.RemoveAll(postmasterFile(dir))
}

// release releases the folder for the next owner. A second release does nothing.
func (l *locks) release() {
	_ = l.running.Close() // it may be nil or closed
	_ = l.owner.Close()
}

// awaitLock locks a file as soon as no other process has it locked. Until then it calls held with the
// time waited. After limit it returns ErrInUse.
func awaitLock(ctx context.Context, path string, limit time.Duration, held func(time.Duration)) (*os.File, error) {
	for start := time.Now(); ; {
		lock, err := tryLock(path)
		waited := time.Since(start)
		if !errors.Is(err, ErrInUse) || waited > limit {
			return lock, err
		}

		held(waited)
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock locks a file and writes our process id into it, for the next caller's error. It returns
// ErrInUse if another process holds the lock.
func tryLock(path string) (file *os.File, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}

	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, errors.Join(ErrInUse, file.Close())
	}

	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}
