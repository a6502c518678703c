package contention_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// A share has half of the slots, a sixth for one key and at least one place, and never gives more. Refusals are
// counted.
func TestShareIsExact(t *testing.T) {
	t.Parallel()
	const keys = 100
	for maxInFlight, places := range map[int]int{1: 1, 7: 3, 40: 20} {
		reg := prometheus.NewRegistry()
		m, err := contention.New(reg, contention.Settings{Lock: "row"})
		if err != nil {
			t.Fatal(err)
		}
		s := contention.NewShare(maxInFlight, m)
		var taken atomic.Int64
		waittest.Together(t, keys, func(key int) error {
			if s.Take(key) {
				taken.Add(1)
			}
			return nil
		})
		refused := apptest.Gathered(t, reg, `rowlock_lock_conflicts_total{lock="row",reason="crowded"}`)
		if int(taken.Load()) != places || s.Free() != 0 || int(refused) != keys-places {
			t.Errorf("%d of %d got a place, %d are free, %g were refused", taken.Load(), places, s.Free(), refused)
		}
	}
}

// The callers of one key have a sixth of the slots, whichever committer they come to.
func TestShareOfAKey(t *testing.T) {
	t.Parallel()
	for maxInFlight, places := range map[int]int{1: 1, 7: 1, 40: 6} {
		s := contention.NewShare(maxInFlight, nil)
		all := s.Free()
		for range places {
			if !s.Take("k") {
				t.Errorf("of %d slots fewer than %d are for one key", maxInFlight, places)
			}
		}
		if s.Take("k") || all > places && !s.Take("other") {
			t.Errorf("of %d slots not %d are for one key", maxInFlight, places)
		}
		if all > places {
			s.Give("other")
		}
		for range places {
			s.Give("k")
		}
		if s.Free() != all || !s.Take("k") {
			t.Errorf("%d places are free, want %d", s.Free(), all)
		}
	}
	var none *contention.Share
	if none.Give("k"); !none.Take("k") {
		t.Error("no share refused a caller")
	}
}

func TestProblemOfAShare(t *testing.T) {
	t.Parallel()
	p := contention.Problem(contention.ErrCrowded)
	if p == nil || p.Kind() != problem.Overloaded || p.RetryAfter() <= 0 {
		t.Errorf("a crowd is answered %v", p)
	}
	if p := contention.Problem(errors.New("other")); p != nil {
		t.Errorf("a foreign error is answered %v", p)
	}
}
