package waittest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// failing records what Error was called with.
type failing struct {
	testing.TB

	message string
}

func (f *failing) Helper() {}

func (f *failing) Error(args ...any) { f.message = fmt.Sprint(args...) }

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
