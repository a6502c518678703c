package httpserver

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	pingEvery   = time.Second
	pingTimeout = time.Second
	// freshFor and failuresBeforeUnready keep readiness from flapping. Only if both are exceeded is it likely that
	// another replica reaches the database and this one does not.
	freshFor              = 9500 * time.Millisecond // so that the tenth ping in a row finds it exceeded
	failuresBeforeUnready = 3
)

// Readiness decides whether a replica should get requests: after its start, while it does not drain, once its
// requirement is met, and while pings of the database, one a second, have not failed for 10 s. An outage shorter than
// 9 s changes nothing: requests are answered 503 meanwhile, which a service without any ready replica could not do.
type Readiness struct {
	ping func(ctx context.Context) error
	log  *slog.Logger

	mu       sync.Mutex
	met      func() bool // nil: nothing is required
	missing  string
	started  bool
	draining bool
	lost     bool      // the database
	failures int       // in a row
	success  time.Time // when the last ping that succeeded began
}

// NewReadiness returns a Readiness that is not ready. ping must return when its context ends. log gets a line with the
// error when the database is lost, and one when it answers again.
func NewReadiness(ping func(ctx context.Context) error, log *slog.Logger) *Readiness {
	return &Readiness{ping: ping, log: log}
}

// Require keeps the replica unready, with missing as the reason, until met returns true. met must not block, and must
// stay true: later failures are answered per request.
func (r *Readiness) Require(met func() bool, missing string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met, r.missing = met, missing
}

// Started marks the replica as migrated and serving.
func (r *Readiness) Started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

// Drain marks the replica as stopping, permanently.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Ready reports whether the replica should get requests and, if not, why.
func (r *Readiness) Ready() (ready bool, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return false, "shutting down"
	case !r.started:
		return false, "starting"
	case r.lost:
		return false, "the database cannot be reached"
	case r.met != nil && !r.met():
		return false, r.missing
	}
	return true, ""
}

// Run pings the database every second. It returns nil when ctx ends.
func (r *Readiness) Run(ctx context.Context) error {
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
	begin := time.Now()
	pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
	err := r.ping(pingCtx)
	cancel()
	if ctx.Err() != nil {
		return // the ping was cancelled
	}

	switch lost, changed := r.record(begin, err); {
	case !changed:
	case lost:
		r.log.WarnContext(ctx, "the database cannot be reached", slog.Any("error", err))
	default:
		r.log.InfoContext(ctx, "the database answers again")
	}
}

// record records the result of a ping that began at a time. It reports whether the database is lost, and whether that
// is new.
func (r *Readiness) record(begin time.Time, err error) (lost, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.lost

	if err == nil {
		r.lost, r.failures, r.success = false, 0, begin
	} else {
		r.failures++
		r.lost = before || r.failures >= failuresBeforeUnready && begin.Sub(r.success) > freshFor
	}
	return r.lost, r.lost != before
}
