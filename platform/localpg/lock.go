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

// How long acquire waits: for a guard that is stopping the server of a killed process,
// longer than the guard's own limit; for a process that is alive, only as long as it
// might need to end.
const (
	guardWait = guardGrace + 5*time.Second
	ownerWait = time.Second
)

// acquire locks the data folder for this process. The lock is flock(2)'s: the kernel frees
// it when the last process that has the open file has ended, so kill -9 does not leave it
// locked. The server's guard has the same open file, so that after acquire neither the
// former owner nor its guard runs any more.
//
// For a live holder acquire waits one second: a process that is being forked holds every
// open file of its parent for a moment.
func acquire(ctx context.Context, dir string) (*os.File, error) {
	file, err := os.OpenFile(lockFile(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data folder: %w", err)
	}
	if err := lock(ctx, file, dir); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lock locks the file and writes our process id into it, for the next caller's error.
func lock(ctx context.Context, file *os.File, dir string) error {
	for start := time.Now(); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		holder, wait := readNumber(file.Name()), guardWait
		if alive(holder) {
			wait = ownerWait
		}
		if time.Since(start) > wait {
			return fmt.Errorf("%w: %s, by process %d", ErrInUse, dir, holder)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	err := file.Truncate(0)
	if err == nil {
		_, err = file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return nil
}

// pause waits for d or until ctx is done, and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
