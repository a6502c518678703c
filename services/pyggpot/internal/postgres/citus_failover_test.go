package postgres

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// TestResolveOnAPromotedWorker: the server of the pots fails over to a standby that has a part of the changes. Each pot
// says there what it has. While a synchronous standby is away, nothing is said.
func TestResolveOnAPromotedWorker(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	dsn := primary.URL("postgres")
	if err := migrate.Up(t.Context(), dsn, Migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, dbtest.Dial(t, dsn), append(distributable(), apptest.StandIns()...)...)
	standby := dbtest.Standby(t, primary)
	name := faultproxy.New(t, dsn)
	r := cluster{dsn: name.DSN(dsn)}.open(t, func(o *Options) { o.TTL = time.Minute })
	queues := make(map[string]*queue)
	for _, kept := range []string{"change", "lease", "pot"} {
		id := r.mustCreate(t, "kept: "+kept, 10)
		if err := r.Change(t.Context(), id, addGold(1)); err != nil {
			t.Fatal(err)
		}
		queues[kept] = &queue{id: id}
	}
	lease := func(kept string) { queues[kept] = r.mustLease(t, queues[kept].id, addGold(1)) }
	change := func(kept string) {
		t.Helper()
		q := queues[kept]
		held := q.lease
		results, err := r.change(t.Context(), coalesce.Pass{SkipLocked: true}, []*queue{q})
		if err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		q.lease = held
	}
	lease("change")
	change("change")
	lease("lease")
	awaitLease(t, dbtest.Dial(t, standby.URL("postgres")), queues["lease"])
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	lease("pot")
	change("pot")
	change("lease")
	for _, step := range []func(context.Context) error{primary.Crash, standby.Restart, standby.Promote} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	name.Redirect(standby.Address())

	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}
	for kept, coins := range map[string]int64{"change": 2, "lease": 1, "pot": 1} {
		err := r.resolve(t.Context(), []*queue{queues[kept]}, lost)[0]
		if applied := err == nil; unknown(err) || applied != (coins == 2) {
			t.Errorf("%s: %v", kept, err)
		}
		var p pot.Pot
		waittest.Eventually(t, "the pot is read", func() bool {
			found, err := r.Find(t.Context(), queues[kept].id)
			p = found
			return err == nil
		})
		if p.Contents.Total() != coins {
			t.Errorf("%s: %d coins, want %d", kept, p.Contents.Total(), coins)
		}
	}

	lease("change")
	change("change")
	for _, statement := range []string{
		`ALTER SYSTEM SET synchronous_standby_names = 'absent'`, `SELECT pg_reload_conf()`,
	} {
		if err := r.db.Once(t.Context(), func(ctx context.Context, conn *sqlx.Conn) error {
			_, err := conn.ExecContext(ctx, statement)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	promoted := dbtest.Dial(t, standby.URL("postgres"))
	waittest.Eventually(t, "commits wait for the standby", func() bool {
		var waits bool
		err := promoted.GetContext(t.Context(), &waits, `SELECT `+sqldb.SynchronousSQL)
		return err == nil && waits
	})
	if err := r.resolve(t.Context(), []*queue{queues["change"]}, lost)[0]; !unknown(err) {
		t.Errorf("while the standby is away: %v", err)
	}
}
