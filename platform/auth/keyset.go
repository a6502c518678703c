package auth

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
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

	mu      sync.Mutex
	known   map[string]jose.JSONWebKey
	fetched time.Time     // when the keys were last fetched
	tried   time.Time     // when the last attempt began
	failed  error         // result of the last attempt
	attempt chan struct{} // closed when the current attempt ends; nil: there is none
}

// find returns the key with the ID. If the key is unknown, find has the keys fetched, at most once per pause for all
// requests, and waits for them up to patience or until ctx ends. At most mostWaiting requests wait; others are refused.
func (s *keySet) find(ctx context.Context, id string) (key jose.JSONWebKey, why reason) {
	if key, ok := s.get(id); ok {
		return key, ""
	}

	attempt := s.begin()
	waiting := s.waiting.Add(1)
	defer s.waiting.Add(-1)
	if waiting > mostWaiting {
		return key, reasonKeys
	}

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-attempt:
	case <-timer.C:
		return key, reasonKeys
	case <-ctx.Done():
		return key, reasonKeys
	}

	// The attempt has ended: look again.
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.known[id]
	switch {
	case ok:
		return key, ""
	case s.failed != nil:
		return key, reasonKeys // the issuer may have published it since
	}
	return key, reasonSignature
}

func (s *keySet) get(id string) (key jose.JSONWebKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.known[id]
	return key, ok
}

// begin starts fetching the keys, unless an attempt is under way or began less than pause ago. The channel that it
// returns is closed when there is nothing to wait for. The attempt outlives its first caller: others wait for it too.
func (s *keySet) begin() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil {
		return s.attempt
	}

	ended := make(chan struct{})
	if !s.tried.IsZero() && time.Since(s.tried) < pause {
		close(ended)
		return ended
	}

	s.tried, s.attempt = time.Now(), ended
	go func() {
		found, err := s.fetch(context.Background()) //nolint:contextcheck // see above
		s.end(found, err)
	}()
	return ended
}

// end records the result of an attempt.
func (s *keySet) end(found map[string]jose.JSONWebKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(s.attempt); s.attempt = nil }()

	before := s.failed
	s.failed = err
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
	if !due {
		return
	}

	select {
	case <-s.begin():
	case <-ctx.Done():
	}
}
