package postgres_test

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// A group of adds is halved around an item that is locked, and each part commits by
// itself: what goes wrong with one is not told to the callers of another.
func TestErrorOfAPartIsItsOwn(t *testing.T) {
	t.Parallel()
	parted := false
	for every := 2; every <= 6; every++ {
		dsn := dbtest.Postgres(t, postgres.Migrations())
		proxy := faultproxy.New(t, dsn)
		direct, s := openStore(t, dsn, sqldb.PoolerNone), openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
		release := hold(t, apptest.Open(t, dsn), `INSERT INTO iidy.lists (list, item) VALUES ('l', 'held')`)
		proxy.CutEvery(every, faultproxy.AfterStatement, faultproxy.RST)
		items := []attempt.Item{"a", "b", "held", "z"}
		answers := s.AddFree(t.Context(), list, items...)
		release()
		added, failed := 0, 0
		for i, a := range answers {
			_, missing := direct.Get(t.Context(), list, items[i])
			outcome, ours := sqldb.OutcomeOf(a.Err)
			switch {
			case a.Locked, a.Err != nil && ours && outcome == sqldb.NotApplied:
				if !errors.Is(missing, attempt.ErrNotFound) {
					t.Errorf("cut %d: %s was said not to be added, and is there", every, items[i])
				}
			case a.Err == nil:
				added++
				if missing != nil || a.Value != 1 {
					t.Errorf("cut %d: %s was said to be added: %d, %v", every, items[i], a.Value, missing)
				}
			}
			if a.Err != nil {
				failed++
			}
		}
		parted = parted || added > 0 && failed > 0
	}
	if !parted {
		t.Error("no group was parted into what was added and what failed: the test proved nothing")
	}
}
