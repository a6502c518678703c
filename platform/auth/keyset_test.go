package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// publisher publishes keys, as the test says.
type publisher struct {
	ids     []string
	err     error
	takes   time.Duration
	fetches int
}

func (p *publisher) fetch(context.Context) (map[string]jose.JSONWebKey, error) {
	p.fetches++
	time.Sleep(p.takes)
	found := make(map[string]jose.JSONWebKey)
	for _, id := range p.ids {
		found[id] = jose.JSONWebKey{KeyID: id}
	}
	return found, p.err
}

// inBubble runs test with the keys of p, which were fetched.
func inBubble(t *testing.T, p *publisher, test func(t *testing.T, s *keySet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(prometheus.NewRegistry())
		s := &keySet{fetch: p.fetch, metrics: m, log: slog.New(slog.DiscardHandler)}
		s.renew(t.Context())
		test(t, s)
		time.Sleep(p.takes) // of an attempt that goes on
	})
}

// wantAll looks for a key by many requests at once.
func (s *keySet) wantAll(t *testing.T, id string, want reason) {
	t.Helper()
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if key, why := s.find(t.Context(), id); why != want || why == "" && key.KeyID != id {
				t.Errorf("%s: %q, want %q", id, why, want)
			}
		})
	}
	all.Wait()
}

// TestRotation: a new key is fetched once, by the first of its tokens, for all.
func TestRotation(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}, takes: time.Second}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		time.Sleep(pause)
		before := s.generation.Load()
		p.ids = []string{"a", "b"}
		s.wantAll(t, "b", "")
		s.wantAll(t, "a", "")
		if p.fetches != 2 || s.generation.Load() == before {
			t.Errorf("%d fetches, want 2; generation %d, then %d", p.fetches, before, s.generation.Load())
		}
	})
}

// TestRotationDuringPause: a token of a new key is not refused for good because another one has just used up the pause.
func TestRotationDuringPause(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		time.Sleep(pause)
		if _, why := s.find(t.Context(), "invented"); why != reasonSignature {
			t.Errorf("an invented key: %q", why)
		}
		p.ids = []string{"a", "b"}
		time.Sleep(pause / 2)
		s.wantAll(t, "b", reasonUnseen)
		time.Sleep(pause / 2)
		s.wantAll(t, "b", "")
	})
}

// TestFlood: however many tokens name keys that do not exist, the issuer is asked once in each pause.
func TestFlood(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		for range 5 {
			time.Sleep(pause)
			s.wantAll(t, "x", reasonSignature)
			time.Sleep(time.Millisecond)
			s.wantAll(t, "y", reasonUnseen)
		}
		if p.fetches != 6 {
			t.Errorf("%d fetches in six pauses", p.fetches)
		}
	})
}

// TestSlowIssuer: a request waits for a while only, and none waits for keys that are known.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		p.takes = time.Minute
		time.Sleep(pause)
		begin := time.Now()
		s.wantAll(t, "b", reasonKeys)
		if took := time.Since(begin); took != patience {
			t.Errorf("requests waited for %v", took)
		}
		s.wantAll(t, "a", "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, why := s.find(ctx, "b"); why != reasonKeys {
			t.Errorf("a request whose client left: %q", why)
		}
		if took := time.Since(begin); took != patience || p.fetches != 2 {
			t.Errorf("requests waited for %v, and the keys were fetched %d times", took, p.fetches)
		}
	})
}

// TestManyWait: no more requests wait than may, because they hold no slot.
func TestManyWait(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		p.takes = time.Minute
		time.Sleep(pause)
		begin := time.Now()
		var all sync.WaitGroup
		for range mostWaiting {
			all.Go(func() { _, _ = s.find(t.Context(), "b") })
		}
		synctest.Wait()
		if _, why := s.find(t.Context(), "b"); why != reasonKeys || time.Since(begin) != 0 {
			t.Errorf("one more: %q after %v", why, time.Since(begin))
		}
		all.Wait()
		if n := s.waiting.Load(); n != 0 {
			t.Errorf("%d requests wait in the end", n)
		}
	})
}

// TestRenewal: the keys are fetched every five minutes, and at each look after an attempt that failed.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p := &publisher{ids: []string{"a"}}
	inBubble(t, p, func(t *testing.T, s *keySet) {
		look := func(want int) {
			t.Helper()
			time.Sleep(RefreshEvery)
			s.renew(t.Context())
			if p.fetches != want {
				t.Errorf("%d fetches, want %d", p.fetches, want)
			}
		}
		look(1)
		time.Sleep(renewEvery)
		p.err = errors.New("away")
		look(2)
		look(3)
		s.wantAll(t, "a", "")
		if !s.fetchedOnce() {
			t.Error("the keys are lost while the issuer is away")
		}
		p.err = nil
		look(4)
		look(4)
	})
}
