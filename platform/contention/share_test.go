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

// Half of the requests may wait, at least one, and never more. Refusals are counted.
func TestShareIsExact(t *testing.T) {
	t.Parallel()
	const keys = 100
	for maxInFlight, places := range map[int]int{1: 1, 7: 3, 40: 20} {
		reg := prometheus.NewRegistry()
		m := contention.New(reg, contention.Settings{Lock: "row"})
		s := contention.NewShare(maxInFlight, m)
		var taken atomic.Int64
		waittest.Together(t, keys, func(key int) error {
			if s.Take(key) {
				taken.Add(1)
			}
			return nil
		})
		refused := apptest.Gathered(t, reg, `rowlock_lock_conflicts_total{lock="row",reason="crowded"}`)
		if int(taken.Load()) != places || int(refused) != keys-places {
			t.Errorf("%d of %d got a permit, %g were refused", taken.Load(), places, refused)
		}
	}
}

// A sixth of the requests may wait for one key, at least one, and leave room for those of other keys.
func TestShareOfAKey(t *testing.T) {
	t.Parallel()
	for maxInFlight, permits := range map[int]int{1: 1, 7: 1, 40: 6} {
		s := contention.NewShare(maxInFlight, nil)
		for range 2 { // they are given back in between
			taken := 0
			for s.Take("k") {
				taken++
			}
			if taken != permits {
				t.Errorf("of %d requests %d may wait for one key, want %d", maxInFlight, taken, permits)
			}

			if others := maxInFlight > 1; s.Take("other") != others {
				t.Errorf("of %d requests one may wait for another key: %t, want %t", maxInFlight, !others, others)
			} else if others {
				s.Give("other")
			}
			for range taken {
				s.Give("k")
			}
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
