package postgres_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// tally sorts answers by what they say about the change.
type tally struct{ acknowledged, unknown, refused atomic.Int64 }

func (y *tally) add(err error) {
	switch outcome, ours := sqldb.OutcomeOf(err); {
	case err == nil:
		y.acknowledged.Add(1)
	case ours && outcome == sqldb.NotApplied, errors.Is(err, coalesce.ErrLocked):
		y.refused.Add(1)
	default:
		y.unknown.Add(1)
	}
}

// concurrently runs do from 16 goroutines, 40 times each, and waits.
func concurrently(t *testing.T, do func(worker, round int)) {
	t.Helper()
	waittest.Together(t, 16, func(w int) error {
		for round := range 40 {
			do(w, round)
		}
		return nil
	})
}

// The reply to an increment gets lost, by FIN and by RST: the answer is never
// wrong, and nothing is sent twice.
func TestLostReplyToAStatement(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			direct := openStore(t, dsn, sqldb.PoolerNone)
			mustCreate(t, direct, "a")
			proxy := faultproxy.New(t, dsn)
			s := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
			proxy.CutEvery(5, faultproxy.AfterStatement, how)

			var y tally
			concurrently(t, func(int, int) {
				_, err := countingtest.Add(t.Context(), s, "a", 1)
				y.add(err)
			})
			v, err := direct.Find(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			low, high := y.acknowledged.Load(), y.acknowledged.Load()+y.unknown.Load()
			t.Logf("%d acknowledged, %d unknown, %d refused, %d cuts, value %d", low, y.unknown.Load(), y.refused.Load(),
				proxy.Cuts(), v.Current)
			if v.Current < low || v.Current > high {
				t.Errorf("the value is %d, outside %d..%d", v.Current, low, high)
			}
			if proxy.Cuts() == 0 || y.unknown.Load() == 0 {
				t.Error("no outcome became unknown: the test proved nothing")
			}
		})
	}
}

// The reply to COMMIT gets lost: the outcome is looked up, so the answer is true.
func TestLostReplyToACommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			direct := openStore(t, dsn, sqldb.PoolerNone)
			proxy := faultproxy.New(t, dsn)
			s := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
			proxy.CutEvery(5, faultproxy.AfterCommit, how)

			var y tally
			concurrently(t, func(worker, round int) {
				id := counting.ItemID(fmt.Sprintf("%d-%d", worker, round))
				_, err := s.Create(t.Context(), id, 1)
				y.add(err)
				_, missing := direct.Find(t.Context(), id)
				if outcome, ours := sqldb.OutcomeOf(err); (err == nil && missing != nil) ||
					(ours && outcome == sqldb.NotApplied && missing == nil) {
					t.Errorf("create said %v, find says %v", err, missing)
				}
			})
			t.Logf("%d acknowledged, %d unknown, %d refused, %d cuts", y.acknowledged.Load(), y.unknown.Load(), y.refused.Load(),
				proxy.Cuts())
			if proxy.Cuts() == 0 {
				t.Error("nothing was cut: the test proved nothing")
			}
			if y.unknown.Load() != 0 {
				t.Errorf("%d outcomes stayed unknown although the server was there to be asked", y.unknown.Load())
			}
		})
	}
}
