package observe

import (
	"regexp"
	"testing"
	"time"
)

// unmoved are expressions that stay at zero in this test, with the reason.
func unmoved() map[string]string {
	return map[string]string{
		`rowlock_retries_total`:             "nothing deadlocks; lab/acceptance demands just that",
		`rowlock_coalesce_queue_full_total`: "1,024 waiting callers are not to be had here; platform/coalesce has a test",
		`rowlock_outcome_unknown_total`:     "which service had a COMMIT on its way when PostgreSQL died is chance; one had, an alert says",
	}
}

// panelsMove demands of every expression that it showed something other than zero in all that happened.
func panelsMove(t *testing.T, r *rig, all []*page, since, until time.Time) {
	t.Helper()
	still := 0
	everyTarget(all, func(where, expr string) {
		_, moved, err := r.hasData(t.Context(), expr, since, until)
		if err != nil || moved {
			return
		}
		still++
		for part := range unmoved() {
			if regexp.MustCompile(part).MatchString(expr) {
				return
			}
		}
		t.Errorf("%s: zero whatever happens: %s", where, expr)
	})
	t.Logf("%d expressions stayed at zero, each for a known reason", still)
}
