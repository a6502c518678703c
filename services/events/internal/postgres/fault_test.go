package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// TestLostReplies: the replies to groups get lost, and what the slots say is answered. No caller is told that an
// outcome is unknown, each id is given once, and the ids stay gapless.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers, adds = 16, 30
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy, db := faultproxy.New(t, dsn), dbtest.Dial(t, dsn)
			reg := prometheus.NewRegistry()
			s := openSeen(t, proxy.DSN(dsn), sqldb.PoolerNone, reg, nil)
			proxy.CutEvery(5, faultproxy.AfterStatement, how)

			var mu sync.Mutex
			given := map[event.ID]bool{}
			waittest.Together(t, callers, func(int) error {
				for range adds {
					id, err := s.Add(t.Context(), event.New{Value: "x"})
					if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.NotApplied {
						continue // sent three times, and lost three times
					}
					if err != nil {
						return err
					}
					mu.Lock()
					given[id] = true
					mu.Unlock()
				}
				return nil
			})

			if n := eventtest.WantWhole(t, db, "events."); n != int64(len(given)) {
				t.Errorf("%d events are stored, %d callers have an id", n, len(given))
			}
			if apptest.Gathered(t, reg, `rowlock_outcome_resolved_total{pool="main",result="committed"}`) == 0 {
				t.Error("no reply was lost: the test proved nothing")
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
	if n := eventtest.WantWhole(t, db, "events."); n != pending {
		t.Errorf("%d events, want %d", n, pending)
	}
	const query = `SELECT count(*) FROM events.events WHERE value IS NULL OR split_part(value, ' ', 1) <> id::text`
	if wrong := apptest.One[int](t, db, query); wrong != 0 {
		t.Errorf("%d events have no value or another's", wrong)
	}
}
