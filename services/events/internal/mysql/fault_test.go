package mysql_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

// TestLostReplies: the replies to statements and to COMMIT get lost. What was acknowledged is stored, under a
// separate id, and the ids stay gapless.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"SELECT id FROM status", "UPDATE status", "INSERT INTO events", "COMMIT"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.MariaDB(t, mysql.Migrations())
			proxy, db := faultproxy.New(t, dsn), openPool(t, dsn, nil)
			s := openStore(t, proxy.DSN(dsn), nil)
			var given []event.ID
			var unknown, refused int64
			const rounds, callers = 6, 8
			for round := range rounds {
				if round%2 == 1 {
					when := faultproxy.AfterStatement
					if lost == "COMMIT" {
						when = faultproxy.AfterCommit
					}
					proxy.Cut(when, faultproxy.FIN, faultproxy.Matching(lost))
				}
				var mu sync.Mutex
				waittest.Together(t, callers, func(int) error {
					id, err := s.Add(t.Context(), event.New{Value: "x"})
					mu.Lock()
					defer mu.Unlock()
					outcome, ours := sqldb.OutcomeOf(err)
					switch {
					case err == nil:
						given = append(given, id)
					case ours && outcome == sqldb.Unknown:
						unknown++
					case ours:
						refused++
					default:
						return err
					}
					return nil
				})
			}
			n := eventtest.WantWhole(t, db, "")
			slices.Sort(given)
			if len(slices.Compact(slices.Clone(given))) != len(given) {
				t.Error("an id was given twice")
			}
			if low, high := int64(len(given)), int64(len(given))+unknown; n < low || n > high {
				t.Errorf("%d events, outside %d..%d", n, low, high)
			}
			// Before COMMIT the outcome is known, after it is not.
			if commit := lost == "COMMIT"; proxy.Cuts() != rounds/2 || commit != (unknown > 0) || commit != (refused == 0) {
				t.Errorf("%d cuts, %d unknown, %d refused", proxy.Cuts(), unknown, refused)
			}
		})
	}
}

// TestKilledWorker: a batch is rolled back when its worker's connection is killed in the middle of it.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDB(t, mysql.Migrations())
	proxy := faultproxy.New(t, dsn)
	s, other, db := openStore(t, proxy.DSN(dsn), nil), openStore(t, dsn, nil), openPool(t, dsn, nil)
	for range 20 {
		if _, err := other.Add(t.Context(), event.New{Pending: true}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.Work(t.Context(), 20, func(event.ID) string {
		proxy.Drop(faultproxy.FIN)
		return "lost"
	})
	if outcome, ours := sqldb.OutcomeOf(err); n != 0 || !ours || outcome != sqldb.NotApplied {
		t.Errorf("worked %d, %v", n, err)
	}
	worked := 0
	waittest.Eventually(t, "the server has rolled the claim back", func() bool {
		n, err := other.Work(t.Context(), 100, func(event.ID) string { return "kept" })
		if err != nil {
			t.Error(err)
		}
		worked += n
		return worked == 20
	})
	eventtest.WantWhole(t, db, "")
}
