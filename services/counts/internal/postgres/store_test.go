package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

func TestMain(m *testing.M) {
	status := dbtest.Main(m)
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// openStore opens one replica's store on a database.
func openStore(t *testing.T, dsn string, pooler sqldb.Pooler) *postgres.Store {
	t.Helper()
	s, _ := openSeen(t, dsn, pooler)
	return s
}

// openSeen opens one replica's store, whose lock metrics the test looks at.
func openSeen(t *testing.T, dsn string, pooler sqldb.Pooler) (*postgres.Store, *apptest.Contention) {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{Lock: "item", Queued: true, Grouped: true})
	const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second
	reg := prometheus.NewRegistry()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL:              dsn,
		Pooler:           pooler,
		MaxOpenConns:     8,
		LockTimeout:      lockTimeout,
		StatementTimeout: statementTimeout,
		ApplicationName:  "counts",
		Contention:       seen.Metrics,
	}, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(db, postgres.Options{
		MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen.Metrics,
	}, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.WithoutCancel(t.Context())), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, seen
}

// observer opens a plain pool for what the tests look at and lock.
func observer(t *testing.T, dsn string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		return openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone)
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		dsn := dbtest.Postgres(t, postgres.Migrations())
		return openStore(t, dbtest.PgBouncer(t, dsn, 4), sqldb.PoolerTransaction)
	})
}

// begin executes statements in a transaction, which the test ends.
func begin(t *testing.T, db *sqlx.DB, statements ...string) *sqlx.Tx {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// lock locks a row in a transaction of its own until the returned function is called.
func lock(t *testing.T, db *sqlx.DB, id counting.ItemID) (release func()) {
	t.Helper()
	tx := begin(t, db, `SELECT FROM counts.count_values WHERE item_id = '`+string(id)+`' FOR UPDATE`)
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func mustCreate(t *testing.T, s *postgres.Store, ids ...counting.ItemID) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Create(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func wantValue(t *testing.T, s *postgres.Store, id counting.ItemID, want int64) {
	t.Helper()
	if v, err := s.Find(t.Context(), id); err != nil || v.Current != want {
		t.Errorf("%s is %d (%v), want %d", id, v.Current, err, want)
	}
}

// A row that another transaction has locked delays only its own callers, and is never taken for a missing row.
func TestLockedRowDelaysOnlyItsOwnCallers(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "locked", "free")
	release := lock(t, db, "locked")

	held := make(chan error, 10)
	for range cap(held) {
		go func() {
			_, err := s.Add(t.Context(), "locked", 1)
			held <- err
		}()
	}
	// Beside the locked row, other counts change and missing ones are refused.
	for i := range 200 {
		if v, err := s.Add(t.Context(), "free", 1); err != nil || v != int64(i+1) {
			t.Fatalf("free: %d, %v", v, err)
		}
		if _, err := s.Add(t.Context(), "missing", 1); !errors.Is(err, counting.ErrNotFound) {
			t.Fatalf("missing: %v", err)
		}
	}
	select {
	case err := <-held:
		t.Fatalf("a caller of the locked row was answered: %v", err)
	default:
	}
	release()
	for range cap(held) {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	wantValue(t, s, "locked", 10)
}

func TestRowLockedForTooLongIsSurelyNotApplied(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "locked")
	release := lock(t, db, "locked")
	_, err := s.Add(t.Context(), "locked", 1)
	if !errors.Is(err, coalesce.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	release()
	if v, err := s.Add(t.Context(), "locked", 10); err != nil || v != 10 {
		t.Errorf("afterwards: %d, %v; want 10", v, err)
	}
}

// Another transaction changes the row while a group waits for its lock: the
// answer counts from the new value.
func TestWaitSeesTheNewValue(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "a", "b")
	tx := begin(t, db, `UPDATE counts.count_values SET current_value = 1000 WHERE item_id = 'a'`)
	var answers sync.WaitGroup
	for _, id := range []counting.ItemID{"a", "b"} {
		answers.Go(func() {
			want := map[counting.ItemID]int64{"a": 1001, "b": 1}[id]
			if v, err := s.Add(t.Context(), id, 1); err != nil || v != want {
				t.Errorf("%s: %d, %v; want %d", id, v, err, want)
			}
		})
	}
	waitForBlocked(t, db)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	answers.Wait()
}

// waitForBlocked returns when some session of the database waits for a lock.
func waitForBlocked(t *testing.T, db *sqlx.DB) {
	t.Helper()
	waittest.Eventually(t, "a session waits for a lock", func() bool {
		var n int
		if err := db.GetContext(t.Context(), &n, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// A deleted and uncommitted row is locked, not missing; an inserted and
// uncommitted one is missing.
func TestUncommittedDeleteAndInsert(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "going")
	tx := begin(t, db, `DELETE FROM counts.count_values WHERE item_id = 'going'`,
		`INSERT INTO counts.count_values (item_id) VALUES ('coming')`)
	if _, err := s.Add(t.Context(), "coming", 1); !errors.Is(err, counting.ErrNotFound) {
		t.Errorf("an uncommitted insert: %v", err)
	}
	going := make(chan error, 1)
	go func() {
		_, err := s.Add(t.Context(), "going", 1)
		going <- err
	}()
	waitForBlocked(t, db)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-going; err != nil {
		t.Errorf("the delete was rolled back, but: %v", err)
	}
	wantValue(t, s, "going", 1)
}

// lookForDeadlocksAtOnce sets deadlock_timeout to 5 ms. By default the server looks for deadlocks after a second,
// when a group has long given up waiting and none is ever seen.
func lookForDeadlocksAtOnce(t *testing.T, dsn string) {
	t.Helper()
	tx := begin(t, observer(t, dsn), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''5ms''', current_database()); END $$`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Groups of several replicas with overlapping keys: exact sums, consecutive
// values, not one deadlock.
func TestReplicasDoNotDeadlock(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	lookForDeadlocksAtOnce(t, dsn)
	var replicas []*postgres.Store
	for range 3 {
		replicas = append(replicas, openStore(t, dsn, sqldb.PoolerNone))
	}
	db := observer(t, dsn)
	const items, callers, each = 40, 60, 50
	ids := make([]counting.ItemID, items)
	for i := range ids {
		ids[i] = counting.ItemID(fmt.Sprintf("item-%02d", i))
	}
	mustCreate(t, replicas[0], ids...)

	var mu sync.Mutex
	values := make(map[int][]int64)
	if err := waittest.Together(callers, func(c int) error {
		random := rand.New(rand.NewPCG(1, uint64(c)))
		for range each {
			k := random.IntN(items)
			v, err := replicas[c%len(replicas)].Add(t.Context(), ids[k], 1)
			if err != nil {
				return err
			}
			mu.Lock()
			values[k] = append(values[k], v)
			mu.Unlock()
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for k, id := range ids {
		wantValue(t, replicas[0], id, int64(len(values[k])))
		slices.Sort(values[k])
		for i, v := range values[k] {
			if v != int64(i+1) {
				t.Fatalf("%s: value %d stands where %d should", id, v, i+1)
			}
		}
	}
	var deadlocks int
	if err := db.GetContext(
		t.Context(), &deadlocks, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`,
	); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
}
