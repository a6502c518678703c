package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// wantWhole tests that the ids are 1..n, each once, and that status holds n, and returns n.
func wantWhole(t *testing.T, db *sqlx.DB) (n int64) {
	t.Helper()
	var got struct {
		Status   int64 `db:"status"`
		Events   int64 `db:"events"`
		Distinct int64 `db:"distinct_ids"`
		Highest  int64 `db:"highest"`
		Lowest   int64 `db:"lowest"`
	}
	const query = `SELECT (SELECT id FROM events.status) AS status, count(*) AS events, count(DISTINCT id) AS distinct_ids,
	                      coalesce(max(id), 0) AS highest, coalesce(min(id), 1) AS lowest
	                 FROM events.events`
	if err := db.GetContext(t.Context(), &got, query); err != nil {
		t.Fatal(err)
	}
	if got.Events != got.Status || got.Distinct != got.Status || got.Highest != got.Status || got.Lowest != 1 {
		t.Errorf("not gapless: %+v", got)
	}
	return got.Status
}

// TestLostReplies: the replies to groups get lost. What was acknowledged is stored, under an id of its own, and the ids
// stay gapless.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy, db := faultproxy.New(t, dsn), dbtest.Dial(t, dsn)
			s := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
			proxy.CutEvery(5, faultproxy.AfterStatement, how)
			var mu sync.Mutex
			var given []event.ID
			var unknown atomic.Int64
			waittest.Together(t, 16, func(int) error {
				for range 30 {
					id, err := s.Add(t.Context(), event.New{Value: "x"})
					outcome, ours := sqldb.OutcomeOf(err)
					switch {
					case err == nil:
						mu.Lock()
						given = append(given, id)
						mu.Unlock()
					case ours && outcome == sqldb.Unknown:
						unknown.Add(1)
					case !ours && !errors.Is(err, coalesce.ErrLocked):
						return err
					}
				}
				return nil
			})
			n := wantWhole(t, db)
			slices.Sort(given)
			if len(slices.Compact(slices.Clone(given))) != len(given) {
				t.Error("an id was given twice")
			}
			if low, high := int64(len(given)), int64(len(given))+unknown.Load(); n < low || n > high {
				t.Errorf("%d events, outside %d..%d", n, low, high)
			}
			if unknown.Load() == 0 {
				t.Error("no outcome became unknown: the test proved nothing")
			}
		})
	}
}

// TestLostRepliesOfWorkers: the connections of workers are cut, after a statement and after COMMIT. Every event gets
// one value.
func TestLostRepliesOfWorkers(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy, db := faultproxy.New(t, dsn), dbtest.Dial(t, dsn)
	direct := openStore(t, dsn, sqldb.PoolerNone)
	const pending = 400
	waittest.Together(t, 50, func(int) (err error) {
		for range pending / 50 {
			_, added := direct.Add(t.Context(), event.New{Pending: true})
			err = errors.Join(err, added)
		}
		return err
	})
	s := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
	proxy.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST)
	proxy.CutEvery(3, faultproxy.AfterCommit, faultproxy.FIN)
	var failed atomic.Int64
	waittest.Together(t, 4, func(i int) error {
		for { // until nothing is pending: the server may not have rolled back the claim of a cut connection yet
			if b, err := direct.Backlog(t.Context()); err != nil || b.Pending == 0 {
				return err
			}
			value := func(id event.ID) string { return fmt.Sprintf("%d by %d", id, i) }
			if _, err := s.Work(t.Context(), 10, value); err != nil {
				failed.Add(1)
			}
		}
	})
	if failed.Load() == 0 {
		t.Error("nothing failed: the test proved nothing")
	}
	if n := wantWhole(t, db); n != pending {
		t.Errorf("%d events, want %d", n, pending)
	}
	var wrong int
	const query = `SELECT count(*) FROM events.events WHERE value IS NULL OR split_part(value, ' ', 1) <> id::text`
	if err := db.GetContext(t.Context(), &wrong, query); err != nil || wrong != 0 {
		t.Errorf("%d events have no value or another's, %v", wrong, err)
	}
}
