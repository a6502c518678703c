// Package waittest helps tests wait for conditions, release goroutines together, and read a log while it is written.
package waittest

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// Eventually calls condition every few milliseconds until it returns true. After a minute, which a slow machine may
// need, it fails the test with a message that contains what. Call it from the test's goroutine. condition may call
// t.Fatal.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	const limit, interval = time.Minute, 2 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for begin := time.Now(); !condition(); <-tick.C {
		if time.Since(begin) >= limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// Together runs f(0) to f(n-1) in separate goroutines, releases them at the same moment, waits for all of them and
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
