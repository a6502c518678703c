package fault_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localcitus"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// cluster is a Citus cluster with a table over both workers.
type cluster struct {
	*fault.Citus

	db       *sqldb.DB
	injector *fault.Injector
	target   *fault.Target
}

// startCluster starts one, or returns nil where Citus is not installed, which must be said.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	citus, err := fault.StartCitus(t.Context(), "rows", localpg.Options{Settings: map[string]string{"fsync": "off"}})
	if !dbtest.HasCitus(t) {
		if !errors.Is(err, localcitus.ErrNotInstalled) {
			t.Errorf("a cluster without the extension: %v", err)
		}
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := citus.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: citus.URL(), StatementTimeout: 20 * time.Second, LockTimeout: 20 * time.Second, Cluster: sqldb.ClusterCitus,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		`CREATE TABLE kept (n int PRIMARY KEY, changes int NOT NULL DEFAULT 0)`,
		`SELECT create_distributed_table('kept', 'n')`, `INSERT INTO kept SELECT generate_series(1, 100)`,
		`CREATE TABLE named (name text PRIMARY KEY)`, `SELECT create_reference_table('named')`,
	} {
		if err := local.Execute(t.Context(), db, statement); err != nil {
			t.Fatal(err)
		}
	}
	return &cluster{
		Citus: citus, db: db, injector: &fault.Injector{DB: db, Citus: citus},
		target: &fault.Target{Writes: []string{"update public.kept"}},
	}
}

// inject carries an action out and returns what it did.
func (c *cluster) inject(t *testing.T, e fault.Event) map[fault.Action]int {
	t.Helper()
	c.target.Begin()
	if err := c.injector.Inject(t.Context(), e, []*fault.Target{c.target}); err != nil {
		t.Fatal(err)
	}
	return c.target.Done()
}

// change changes all rows in one transaction.
func (c *cluster) change(t *testing.T) error {
	t.Helper()
	return c.db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE kept SET changes = changes + 1`)
		return err
	})
}

func (c *cluster) want(t *testing.T, query string, want int) {
	t.Helper()
	var n int
	if err := c.db.GetContext(t.Context(), &n, query); err != nil || n != want {
		t.Errorf("%s: %d and %v, want %d", query, n, err, want)
	}
}

// A worker is killed and comes back, shards move, a worker is added and gets some: the rows stay, and stay reachable.
// The reply of a worker is lost when it is to be, also the one to COMMIT PREPARED, which the coordinator sends again.
func TestCitus(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	if c == nil {
		return
	}
	const rows, changes = `SELECT count(*) FROM kept`, `SELECT sum(changes) FROM kept`
	done := c.inject(t, fault.Event{Action: fault.KillWorker, For: 10 * time.Millisecond})
	if done[fault.KillWorker] != 1 {
		t.Errorf("killed: %v", done)
	}
	c.want(t, rows, 100)
	if done := c.inject(t, fault.Event{Action: fault.MoveShard, Pick: 3}); done[fault.MoveShard] != 2 {
		t.Errorf("moved: %v", done)
	}
	done = c.inject(t, fault.Event{Action: fault.AddWorker})
	if done[fault.AddWorker] != 1 || done[fault.MoveShard] != 2 {
		t.Errorf("added: %v", done)
	}
	c.want(t, `SELECT count(DISTINCT groupid) FROM pg_dist_placement JOIN pg_dist_shard USING (shardid)
		WHERE logicalrelid = 'kept'::regclass`, 3)
	c.want(t, rows, 100)

	c.inject(t, fault.Event{Action: fault.CutWorker})
	if err := c.change(t); err == nil {
		t.Error("the reply of a worker is not lost")
	}
	if done := c.target.Done(); done[fault.CutWorker] != 1 {
		t.Errorf("cut: %v", done)
	}
	c.want(t, changes, 0)
	c.inject(t, fault.Event{Action: fault.CutWorkerCommit})
	_ = c.change(t)
	if done := c.target.Done(); done[fault.CutWorkerCommit] != 1 {
		t.Errorf("cut: %v", done)
	}
	c.StopCutting()
	if left, err := c.Recovered(t.Context()); left != 0 || err != nil {
		t.Errorf("%d transactions stay prepared, %v", left, err)
	}
	c.want(t, changes, 100)
}
