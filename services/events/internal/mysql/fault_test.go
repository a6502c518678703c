package mysql_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/migrate"
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

// TestServerKilled: the server is killed under load and started again. What was acknowledged is stored, once, and adds
// and work go on.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server, dsn := dbtest.MariaServer(t)
	if err := migrate.Up(t.Context(), dsn, mysql.Migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	s, db := openStore(t, dsn, nil), openPool(t, dsn, nil)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var given, unknown, workedOK atomic.Int64
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := s.Add(t.Context(), event.New{Pending: true})
				if outcome, ours := sqldb.OutcomeOf(err); err == nil {
					given.Add(1)
				} else if ours && outcome == sqldb.Unknown {
					unknown.Add(1)
				}
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				if n, err := s.Work(t.Context(), 10, func(event.ID) string { return "x" }); err == nil {
					workedOK.Add(int64(n))
				}
			}
		})
	}
	waittest.Eventually(t, "some events", func() bool { return given.Load() > 50 && workedOK.Load() > 20 })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	before, worked := given.Load(), workedOK.Load()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it goes on", func() bool { return given.Load() > before+50 && workedOK.Load() > worked+20 })
	stop()
	all.Wait()
	if n := eventtest.WantWhole(t, db, ""); n < given.Load() || n > given.Load()+unknown.Load() {
		t.Errorf("%d events, %d acknowledged, %d unknown", n, given.Load(), unknown.Load())
	}
}
