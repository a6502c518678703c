package waittest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing records what Fatalf and Error were called with. Fatalf ends its goroutine as testing.T does.
type failing struct {
	testing.TB

	message string
}

func (f *failing) Helper() {}

func (f *failing) Error(args ...any) { f.message = fmt.Sprint(args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, "three calls", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	synctest.Test(t, func(t *testing.T) {
		f, begin := &failing{TB: t}, time.Now()
		defer func() {
			if recover() != any(f) || !strings.Contains(f.message, "the pot is free") || time.Since(begin) < time.Minute {
				t.Errorf("%q after %s", f.message, time.Since(begin))
			}
		}()
		Eventually(f, "the pot is free", func() bool { return false })
	})
}

// Every goroutine stands in f before one of them goes on, so all must have been released.
func TestTogether(t *testing.T) {
	t.Parallel()
	const n = 50
	var all sync.WaitGroup
	all.Add(n)
	f := &failing{TB: t}
	Together(f, n, func(i int) error {
		all.Done()
		all.Wait()
		if i == 7 {
			return errors.New("the seventh")
		}
		return nil
	})
	if f.message != "the seventh" {
		t.Errorf("%q was reported", f.message)
	}
	Together(t, n, func(int) error { return nil })
}
