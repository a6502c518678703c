// Package waittest waits for conditions and releases goroutines together in tests.
package waittest

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// Eventually calls condition every few milliseconds until it returns true, and fails the test with a message that
// names what after a minute, which a slow machine may need. Call it from the goroutine of the test. A condition that
// finds a fault may call t.Fatal itself.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	eventually(t, time.Minute, what, condition)
}

func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	const interval = 2 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for begin := time.Now(); !condition(); <-tick.C {
		if time.Since(begin) >= limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// Together calls f(0) to f(n-1), each in a goroutine of its own, releases them at one moment, waits for all of them and
// reports their errors.
func Together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-release
			errs[i] = f(i)
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
