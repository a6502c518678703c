package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
	"github.com/rowlock/rowlock/services/iidy/internal/spool"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

// rig is a database with the store of one replica on it.
type rig struct {
	*testing.T
	*postgres.Store

	dsn  string
	db   *sqlx.DB            // a direct connection
	pool *sqldb.DB           // the store's
	seen *apptest.Contention // what the store recorded about locks
	reg  *prometheus.Registry

	share   *contention.Share
	service *attempt.Service // of the store
}

// places is the number of calls of a rig that may wait for locked items.
const places = 64

// unrefused returns how many calls of a rig may come at once and none is refused: on one server more than places, since
// free items need none; on shards fewer, for on a slow machine their shard seems not to answer, and then all need one.
func unrefused(t *testing.T) int {
	t.Helper()
	if clusterOf(t) == sqldb.ClusterNone {
		return 200
	}
	return 60
}

// newRig opens a store on a new database, with timeouts that a test can wait for.
func newRig(t *testing.T) *rig {
	t.Helper()
	return rigOn(t, database(t), sqldb.PoolerNone, 2*time.Second)
}

// slow is a lock timeout that no machine exceeds: a change that waits for a row gets it.
const slow = 2 * time.Minute

func rigOn(t *testing.T, dsn string, pooler sqldb.Pooler, lockTimeout time.Duration) *rig {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{
		Lock: "item", Queued: true, Grouped: true, Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
	})
	reg := prometheus.NewRegistry()
	db := apptest.Pool(t, sqldb.Settings{
		URL: dsn, Pooler: pooler, Cluster: clusterOf(t), MaxOpenConns: 8,
		LockTimeout: lockTimeout, StatementTimeout: 2 * lockTimeout,
		ApplicationName: "iidy", Session: sqldb.PlannedOnce(), Contention: seen.Metrics,
	}, reg)
	limits := groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, "iidy", time.Minute, groupcommit.Beside(postgres.Table)),
		LockTimeout: lockTimeout, StatementTimeout: 2 * lockTimeout, Contention: seen.Metrics, Registry: reg,
		Share: contention.NewShare(6*places, nil),
	}
	m := metrics.New(reg)
	s := postgres.New(postgres.Options{
		Limits: limits, Metrics: m, MaxOpenConns: 8, BulkTimeout: time.Minute, BulkInFlight: 3,
	})
	apptest.CloseAtEnd(t, s.Close)
	files, err := spool.New(t.TempDir(), 64<<20, reg)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, s, dsn, dbtest.Dial(t, dsn), db, seen, reg, limits.Share, attempt.NewService(s, files)}
}

// another opens the store of another replica on the same database.
func (r *rig) another() *rig {
	r.Helper()
	return rigOn(r.T, r.dsn, sqldb.PoolerNone, 2*time.Second)
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		dsn := database(t)
		apptest.WatchDeadlocks(t, dsn)
		return rigOn(t, dsn, sqldb.PoolerNone, 2*time.Second).Store
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	attempttest.Exercise(t, func(t *testing.T) attempt.Repository {
		t.Helper()
		dsn := dbtest.PgBouncer(t, dbtest.Postgres(t, postgres.Migrations()), 4)
		return rigOn(t, dsn, sqldb.PoolerTransaction, 2*time.Second).Store
	})
}

func execute(t *testing.T, db *sqlx.DB, statement string, args ...any) {
	t.Helper()
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.ExecContext(t.Context(), statement, args...)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// waitForBlocked waits until n sessions wait for a lock.
func (r *rig) waitForBlocked(n int) {
	r.Helper()
	if strings.Contains(r.Name()+"/", onCitus) {
		waitForBlockedOnWorkers(r, n)
		return
	}
	apptest.WaitForBlocked(r.T, r.db, n)
}

// lock locks an item's row in another transaction, and returns the function that ends it.
func (r *rig) lock(item attempt.Item) (release func()) {
	r.Helper()
	const query = `SELECT FROM iidy.lists WHERE list = 'l' AND item = $1 FOR UPDATE`
	return apptest.Hold(r.T, r.db, query, string(item)).Rollback
}

// insert adds an item in another transaction, and returns the function that rolls it back.
func (r *rig) insert(item attempt.Item) (release func()) {
	r.Helper()
	return apptest.Hold(r.T, r.db, `INSERT INTO iidy.lists (list, item) VALUES ('l', $1)`, string(item)).Rollback
}

const (
	list  attempt.List  = "l"
	claim attempt.Claim = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)

func (r *rig) add(items ...attempt.Item) {
	r.Helper()
	n, err := r.ApplyBatch(r.Context(), attempt.Add, list, attempt.ItemsOf(items...), "")
	if err != nil || n != int64(len(items)) {
		r.Fatalf("added %d of %d: %v", n, len(items), err)
	}
}

// async calls f in a new goroutine; the channel gets its results, such as "1 <nil>".
func async[T any](f func() (T, error)) <-chan string {
	result := make(chan string, 1)
	go func() {
		n, err := f()
		result <- fmt.Sprint(n, err)
	}()
	return result
}

// want waits for the results of async.
func want(t *testing.T, what string, result <-chan string, want string) {
	t.Helper()
	if got := <-result; got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// seed inserts items 0000000 to n-1 into a list.
func seed(t *testing.T, db *sqlx.DB, list string, n int) {
	t.Helper()
	execute(t, db, `INSERT INTO iidy.lists (list, item)
		SELECT $1, lpad(i::text, 7, '0') FROM generate_series(0, $2::int - 1) AS i`, list, n)
}

// The largest number of attempts stays as it is and does not fail its batch.
func TestAttemptsDoNotOverflow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("most", "other")
	execute(t, r.db, `UPDATE iidy.lists SET attempts = 9223372036854775806 WHERE item = 'most'`)
	for range 2 {
		want(t, "batch", async(func() (int64, error) {
			return r.ApplyBatch(t.Context(), attempt.Increment, list, attempt.ItemsOf("most", "other"), "")
		}), "2 <nil>")
		want(t, "single", async(func() (int64, error) {
			return r.Apply(t.Context(), attempt.Increment, list, "most", "")
		}), "1 <nil>")
	}
	got := apptest.One[string](t, r.db, `SELECT string_agg(attempts::text, ' ' ORDER BY item) FROM iidy.lists`)
	if got != "9223372036854775807 2" {
		t.Errorf("the attempts are %s", got)
	}
}
