package auth

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// renewEvery is the maximum age of the keys: a withdrawn key is accepted for as long.
	renewEvery = 5 * time.Minute
	// pause is the minimum time between two attempts to fetch the keys, however many tokens name unknown keys.
	pause = 5 * time.Second
	// patience bounds a request's wait for an attempt.
	patience = 2 * time.Second
	// mostWaiting bounds the requests that wait at once: they hold no permit, so MAX_IN_FLIGHT does not bound them.
	mostWaiting = 1024
)

// keySet holds the issuer's keys. They stay in use while the issuer is unavailable.
type keySet struct {
	fetch   func(ctx context.Context) (map[string]jose.JSONWebKey, error)
	metrics *Metrics
	log     *slog.Logger

	generation atomic.Int64 // incremented when the keys change
	waiting    atomic.Int64 // requests in find
	attempts   singleflight.Group

	mu      sync.Mutex
	known   map[string]jose.JSONWebKey
	fetched time.Time // when the keys were last fetched
	tried   time.Time // when the last attempt began
	looked  time.Time // when the last attempt that has ended began
	failed  error     // its result
}

// find returns the key with the ID. If the key is unknown, find has the keys fetched, at most once per pause for all
// requests, and waits for them up to patience or until ctx ends. At most mostWaiting requests wait; others are refused.
// A key that a fetch has not found is bad only if the fetch began after the request: a client does not repeat a 401.
func (s *keySet) find(ctx context.Context, id string) (key jose.JSONWebKey, why reason) {
	if key, ok := s.get(id); ok {
		return key, ""
	}

	waiting := s.waiting.Add(1)
	defer s.waiting.Add(-1)
	if waiting > mostWaiting {
		return key, reasonKeys
	}

	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.attempt(ctx)
	if ctx.Err() != nil {
		return key, reasonKeys
	}

	// The attempt has ended: look again.
	if key, ok := s.get(id); ok {
		return key, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return key, reasonKeys
	case s.looked.Before(asked):
		return key, reasonUnseen // the issuer may have published it since
	}
	return key, reasonSignature
}

func (s *keySet) get(id string) (key jose.JSONWebKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.known[id]
	return key, ok
}

// attempt fetches the keys, once for all callers, unless the last attempt began less than pause ago. It returns when
// that has ended, or ctx. The attempt outlives its first caller: others wait for it too.
func (s *keySet) attempt(ctx context.Context) {
	ended := s.attempts.DoChan("", func() (any, error) {
		if s.begin() {
			s.end(s.fetch(context.WithoutCancel(ctx)))
		}
		return nil, nil
	})
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// begin reports whether an attempt may begin now.
func (s *keySet) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.tried) < pause {
		return false
	}
	s.tried = time.Now()
	return true
}

// end records the result of an attempt.
func (s *keySet) end(found map[string]jose.JSONWebKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	before := s.failed
	s.failed, s.looked = err, s.tried
	if err != nil {
		s.metrics.issuer.Inc()
		switch {
		case before != nil: // already logged
		case s.known == nil:
			s.log.Warn("the issuer's keys cannot be read, the replica is not ready until they are", slog.Any("error", err))
		default:
			s.log.Warn("the issuer's keys cannot be read, those that are known stay good", slog.Any("error", err))
		}
		return
	}

	if before != nil {
		s.log.Info("the issuer's keys can be read now")
	}

	if !reflect.DeepEqual(s.known, found) {
		s.known = found
		s.generation.Add(1)
	}
	s.fetched = time.Now()
}

// fetchedOnce reports whether the keys were ever fetched.
func (s *keySet) fetchedOnce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known != nil
}

// renew fetches the keys if they are due, and waits until that has ended or ctx ends.
func (s *keySet) renew(ctx context.Context) {
	s.mu.Lock()
	due := s.known == nil || s.failed != nil || time.Since(s.fetched) >= renewEvery
	s.mu.Unlock()
	if due {
		s.attempt(ctx)
	}
}
