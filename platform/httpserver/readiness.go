package httpserver

import (
	"context"
	"sync"
	"time"
)

const (
	pingEvery   = time.Second
	pingTimeout = time.Second
	// freshFor and failuresBeforeUnready hold readiness still: only when both
	// are used up has the database been away for so long that another replica
	// may reach it and this one not.
	freshFor              = 10 * time.Second
	failuresBeforeUnready = 3
)

// Readiness says whether a replica wants requests. It does once it has started
// and until it drains, and in between as long as a ping of the database
// succeeded in the last 10 s or fewer than 3 pings in a row have failed. So an
// outage makes it change at most once to "not ready" and once back, and one
// shorter than 10 s not at all: requests are answered 503 meanwhile, and
// replicas that all leave at once help nobody.
type Readiness struct {
	ping func(ctx context.Context) error

	mu       sync.Mutex
	started  bool
	draining bool
	failures int // in a row
	success  time.Time
}

// NewReadiness makes a Readiness that is not ready. A nil ping stands for a
// service without a database. The ping must end with its context.
func NewReadiness(ping func(ctx context.Context) error) *Readiness {
	return &Readiness{ping: ping}
}

// Started says that the replica has migrated and serves.
func (r *Readiness) Started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

// Drain says that the replica is about to stop. There is no way back.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Ready says whether the replica wants requests and, if not, why.
func (r *Readiness) Ready() (ready bool, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return false, "shutting down"
	case !r.started:
		return false, "starting"
	case r.failures >= failuresBeforeUnready && time.Since(r.success) > freshFor:
		return false, "the database cannot be reached"
	}
	return true, ""
}

// Run pings the database every second until ctx ends, which is no error.
func (r *Readiness) Run(ctx context.Context) error {
	if r.ping == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		r.check(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Readiness) check(ctx context.Context) {
	pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
	err := r.ping(pingCtx)
	cancel()
	if ctx.Err() != nil {
		return // it says nothing about the database
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failures++
		return
	}
	r.failures = 0
	r.success = time.Now()
}
