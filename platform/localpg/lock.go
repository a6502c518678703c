package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse is returned when another process runs, or is just stopping, the server of a data folder.
var ErrInUse = errors.New("the data folder is in use")

// How long acquire waits: for a guard that is stopping the server of a killed process, longer than the guard's own limit; for a
// process that is alive, only as long as it might need to end.
const (
	guardPatience = guardGrace + 5*time.Second
	ownerPatience = time.Second
)

// acquire locks the data folder for this process. The lock is flock(2)'s: the kernel frees it when the last process that holds the
// open file is gone, so no kill -9 leaves it behind. The guard of the server holds the same open file: whoever gets the lock knows
// that neither the former owner nor its guard is at work any more.
//
// A live holder gets a second: a process that is being forked holds every open file of its parent's for a moment, ours included.
func acquire(ctx context.Context, dir string) (*os.File, error) {
	file, err := os.OpenFile(lockFile(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data folder: %w", err)
	}
	for start := time.Now(); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
		}
		holder := signature(dir)
		patience := guardPatience
		if alive(holder) {
			patience = ownerPatience
		}
		if time.Since(start) > patience {
			return nil, errors.Join(fmt.Errorf("%w: %s, by process %d", ErrInUse, dir, holder), file.Close())
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if err := sign(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// signature is the process id in the lock file: of the one that holds the lock or held it last; 0 when it cannot be read.
func signature(dir string) int {
	text, err := os.ReadFile(lockFile(dir))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// sign leaves our process id in the lock file, for the sentence that the next one gets.
func sign(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return nil
}

// pause waits for d or until ctx is done, whose error it then returns.
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
