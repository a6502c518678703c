package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// A group of adds is halved around a locked item, and each part commits by itself: the error of a part is returned
// to the calls of that part alone.
func TestErrorConcernsItsPartAlone(t *testing.T) {
	t.Parallel()
	split := false
	for every := 2; every <= 6; every++ {
		direct := newRig(t)
		proxy := faultproxy.New(t, direct.dsn)
		r := rigOn(t, proxy.DSN(direct.dsn), sqldb.PoolerNone, 2*time.Second)
		release := direct.insert("held")
		proxy.CutEvery(every, faultproxy.AfterStatement, faultproxy.RST)
		items := []attempt.Item{"a", "b", "held", "z"}
		answers := r.AddFree(t.Context(), list, items...)
		release()
		added, failed := 0, 0
		for i, a := range answers {
			_, missing := direct.Get(t.Context(), list, items[i])
			outcome, known := sqldb.OutcomeOf(a.Err)
			notApplied := a.Locked || known && outcome == sqldb.NotApplied
			applied := !a.Locked && a.Err == nil
			if notApplied && !errors.Is(missing, attempt.ErrNotFound) || applied && (missing != nil || a.Value != 1) {
				t.Errorf("cut %d: %s was reported as %+v, and reading it returns %v", every, items[i], a, missing)
			}
			if a.Err != nil {
				failed++
			} else if applied {
				added++
			}
		}
		split = split || added > 0 && failed > 0
	}
	if !split {
		t.Error("no group had both added items and failed ones: the test proved nothing")
	}
}
