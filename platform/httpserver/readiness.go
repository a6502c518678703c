package httpserver

import (
	"context"
	"sync"
	"time"
)

const (
	pingEvery   = time.Second
	pingTimeout = time.Second
	// freshFor and failuresBeforeUnready keep readiness from flapping: only when both are exceeded is it likely that
	// another replica reaches the database and this one does not.
	freshFor              = 10 * time.Second
	failuresBeforeUnready = 3
)

// Readiness decides whether a replica should get requests: from its start until it drains, once every
// requirement is met, and while a ping of the database succeeded in the last 10 s or fewer than 3 pings in a row have
// failed. An outage makes it change at most once to "not ready" and once back, and an outage shorter than 10 s not at
// all: requests are answered 503 meanwhile, and a service without any ready replica would not even do that.
type Readiness struct {
	ping func(ctx context.Context) error

	mu       sync.Mutex
	required []requirement
	started  bool
	draining bool
	failures int // in a row
	success  time.Time
}

// requirement is something that a replica needs before its first request.
type requirement struct {
	met     func() bool
	missing string // the reason while it is not met
}

// NewReadiness returns a Readiness that is not ready. A nil ping stands for a service without a database. The ping must
// end with its context.
func NewReadiness(ping func(ctx context.Context) error) *Readiness {
	return &Readiness{ping: ping}
}

// Require keeps the replica unready, with missing as the reason, until met returns true. met must return at once, and
// must stay true: what fails later is answered per request.
func (r *Readiness) Require(met func() bool, missing string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.required = append(r.required, requirement{met, missing})
}

// Started marks the replica as migrated and serving.
func (r *Readiness) Started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

// Drain marks the replica as stopping, for good.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Ready returns whether the replica should get requests and, if not, why.
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

	for _, needed := range r.required {
		if !needed.met() {
			return false, needed.missing
		}
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
