package postgres

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// TestResolveAfterFailover: a lease that is gone before its time says that the change is committed where the server is
// the one that it was acquired on, restarted or not. On a standby that was promoted without the lease it says nothing;
// one that is still there says that nothing was applied.
func TestResolveAfterFailover(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	dsn := primary.URL("postgres")
	if err := migrate.Up(t.Context(), dsn, Migrations(), time.Minute, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	standby := dbtest.Standby(t, primary)
	name := faultproxy.New(t, dsn)
	r := openStore(t, name.DSN(dsn), sqldb.PoolerNone, func(o *Options) { o.TTL = time.Minute })
	pots := make(map[string]pot.ID)
	for _, name := range []string{"restarted", "replicated", "lost", "later"} {
		pots[name] = r.mustCreate(t, name, 10)
	}
	steps := func(steps ...func(context.Context) error) {
		t.Helper()
		for _, step := range steps {
			if err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	direct := dbtest.Dial(t, dsn)
	const changed = `UPDATE pyggpot.pot SET coins = 1, lock = NULL, lock_expire_time = NULL WHERE pot_name = `
	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}

	q := r.mustLease(t, pots["restarted"])
	apptest.Execute(t, direct, changed+`'restarted'`)
	steps(func(context.Context) error { return primary.Kill() }, primary.Restart)
	if results := r.resolve(t.Context(), []*queue{q}, lost); results[0] != nil {
		t.Errorf("changed, after a restart: %v", results)
	}

	replicated := r.mustLease(t, pots["replicated"])
	awaitLease(t, dbtest.Dial(t, standby.URL("postgres")), replicated)
	steps(func(context.Context) error { return standby.Kill() })
	unseen := r.mustLease(t, pots["lost"])
	apptest.Execute(t, direct, changed+`'lost'`, changed+`'replicated'`)
	steps(primary.Crash, standby.Restart, standby.Promote)
	name.Redirect(standby.Address())
	results := r.resolve(t.Context(), []*queue{unseen, replicated}, lost)
	if !unknown(results[0]) || results[1] == nil || unknown(results[1]) {
		t.Errorf("on the promoted standby: without the lease %v, with it %v", results[0], results[1])
	}

	q = r.mustLease(t, pots["later"])
	promoted := dbtest.Dial(t, standby.URL("postgres"))
	apptest.Execute(t, promoted, changed+`'later'`)
	if results := r.resolve(t.Context(), []*queue{q}, lost); results[0] != nil {
		t.Errorf("leased and changed on the promoted standby: %v", results)
	}
}

// awaitLease waits until the standby has the pot's lease.
func awaitLease(t *testing.T, standby *sqlx.DB, q *queue) {
	t.Helper()
	waittest.Eventually(t, "the standby has the lease", func() bool {
		var leases int
		err := standby.GetContext(t.Context(), &leases, `SELECT count(*) FROM pyggpot.pot WHERE lock = $1`, q.lease.number)
		return err == nil && leases == 1
	})
}
