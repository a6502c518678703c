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

// ErrInUse means that another process runs, or is just stopping, the server of a data
// folder.
var ErrInUse = errors.New("the data folder is in use")

const (
	// ownerWait is how long acquire waits for a process that is alive: one that is being forked
	// holds every open file of its parent for a moment.
	ownerWait = time.Second
	// orphanWait is how long acquire waits for the server of a dead process, longer than its guard does.
	orphanWait = guardGrace + 5*time.Second
	// orphanGrace is how long a server without a guard may take to shut down in order.
	orphanGrace = 15 * time.Second
	lockPause   = 20 * time.Millisecond
)

// acquire locks the data folder for this process. The lock is flock(2)'s: the kernel frees it when
// the last process that has the open file has ended, so kill -9 does not leave it locked. The guard,
// the server and its children have the same open file: after acquire none of them runs any more.
//
// When the owner is dead, acquire stops the server, as the guard does, which may have been killed
// too. The server is not reused: its port, settings and version are those of another start, and it is
// not our child, whose end we could wait for.
func acquire(ctx context.Context, o Options, dir string) (*os.File, error) {
	said := false
	for start := time.Now(); ; {
		lock, err := tryLock(lockFile(dir))
		if err == nil {
			// PostgreSQL would refuse to start when the process id in it belongs to another process now.
			if err := os.RemoveAll(postmasterFile(dir)); err != nil {
				return nil, errors.Join(fmt.Errorf("remove what a killed server left: %w", err), lock.Close())
			}
			return lock, nil
		}
		if !errors.Is(err, ErrInUse) {
			return nil, err
		}
		owner, waited := readNumber(lockFile(dir)), time.Since(start)
		switch {
		case waited > orphanWait, waited > ownerWait && alive(owner):
			return nil, fmt.Errorf("%w: %s, by process %d", ErrInUse, dir, owner)
		case !alive(owner):
			said = stopOrphan(o, readNumber(postmasterFile(dir)), waited, said)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// stopOrphan asks the server to shut down, in order at first, and says so once.
func stopOrphan(o Options, pid int, waited time.Duration, said bool) bool {
	if pid <= 0 {
		return said // not the server has the folder, but initdb, which its guard kills
	}
	if !said {
		o.sayf("Stopping PostgreSQL (process %d), left over from a run that was killed", pid)
	}
	sig := fastShutdown
	if waited > orphanGrace {
		sig = immediateShutdown
	}
	_ = syscall.Kill(pid, sig) // fails when it has just ended; the lock tells
	return true
}

// tryLock locks a file and writes our process id into it, for the next caller's error. It returns
// ErrInUse when another process holds the lock.
func tryLock(path string) (file *os.File, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a name of ours
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

// alive reports whether a process with this id exists, of any user.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// pause waits until it is time to try a lock again, or returns ctx's error.
func pause(ctx context.Context) error {
	timer := time.NewTimer(lockPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
