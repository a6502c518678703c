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
	// renewEvery is how old the keys may become: a key that the issuer withdrew is good for so long.
	renewEvery = 5 * time.Minute
	// pause is the least time between two attempts to get the keys, however many tokens name keys that are not known.
	pause = 5 * time.Second
	// patience is how long a request waits for an attempt.
	patience = 2 * time.Second
	// mostWaiting is how many requests wait at once: they hold no slot, so MAX_IN_FLIGHT does not bound them.
	mostWaiting = 1024
)

// keySet holds the keys of the issuer. Those that it has stay good while the issuer is away.
type keySet struct {
	fetch   func(ctx context.Context) (map[string]jose.JSONWebKey, error)
	metrics *Metrics
	log     *slog.Logger

	generation atomic.Int64 // grows when the keys change
	waiting    atomic.Int64 // requests

	mu      sync.Mutex
	known   map[string]jose.JSONWebKey
	fetched time.Time     // when they were
	tried   time.Time     // when the last attempt began
	failed  error         // how it ended
	attempt chan struct{} // closed at the end of the attempt that goes on; nil: there is none
}

// find returns the key with the id. When it is not known, find asks the issuer, at most once in each pause for all
// requests, and waits for the answer up to patience and until ctx ends, unless mostWaiting others do.
func (s *keySet) find(ctx context.Context, id string) (key jose.JSONWebKey, why reason) {
	if key, ok := s.get(id); ok {
		return key, ""
	}
	attempt := s.begin()
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > mostWaiting {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.known[id]
	switch {
	case ok:
		return key, ""
	case s.failed != nil:
		return key, reasonKeys // it may be one that the issuer has published meanwhile
	}
	return key, reasonSignature
}

func (s *keySet) get(id string) (key jose.JSONWebKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.known[id]
	return key, ok
}

// begin begins an attempt to get the keys, unless one goes on or began within the pause, and returns a channel that is
// closed when there is nothing to wait for. The attempt outlives its first caller, because others wait for it too.
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

// end takes over what an attempt brought.
func (s *keySet) end(found map[string]jose.JSONWebKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(s.attempt); s.attempt = nil }()
	before := s.failed
	if s.failed = err; err != nil {
		s.metrics.issuer.Inc()
		switch {
		case before != nil: // it was logged
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

// fetchedOnce reports whether there are keys. Once there are, there always are.
func (s *keySet) fetchedOnce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known != nil
}

// renew gets the keys when they are due, and waits for them until ctx ends.
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
