package postgres_test

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

// replica is one replica's store.
type replica struct {
	countingtest.Repo

	store *postgres.Store
}

// openPatient opens a store with a lock timeout that no machine exceeds: a change that waits for a row gets it.
func openPatient(t *testing.T, dsn string) *replica {
	t.Helper()
	s, _ := openSeen(t, dsn, sqldb.PoolerNone, 2*time.Minute)
	return s
}

// openSeen opens one replica's store, whose lock metrics the test looks at.
func openSeen(
	t *testing.T, dsn string, pooler sqldb.Pooler, lockTimeout time.Duration,
) (*replica, *apptest.Contention) {
	t.Helper()
	return openOn(t, sqldb.Settings{URL: dsn, Pooler: pooler, LockTimeout: lockTimeout})
}

// openOn opens one replica's store by a pool with the settings, and those that all pools have.
func openOn(t *testing.T, settings sqldb.Settings) (*replica, *apptest.Contention) {
	t.Helper()
	seen := apptest.NewContention(t, contention.Settings{Lock: "item", Queued: true, Grouped: true})
	reg := prometheus.NewRegistry()
	settings.MaxOpenConns, settings.StatementTimeout = 8, 2*settings.LockTimeout
	settings.ApplicationName, settings.Contention, settings.Session = "counts", seen.Metrics, sqldb.PlannedOnce()
	db := apptest.Pool(t, settings, reg)

	s := postgres.New(groupcommit.Limits{
		DB: db, Slots: groupcommit.NewSlots(db, "counts", settings.StatementTimeout, postgres.Slots()),
		LockTimeout: settings.LockTimeout, StatementTimeout: settings.StatementTimeout,
		Contention: seen.Metrics, Registry: reg,
	}, 15*time.Minute)
	apptest.CloseAtEnd(t, s.Close)
	return &replica{countingtest.Repo{CountValueRepository: s}, s}, seen
}

func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		return openPatient(t, dbtest.Postgres(t, postgres.Migrations()))
	})
}

func TestStorePassesTheSuiteBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	countingtest.Exercise(t, func(t *testing.T) counting.CountValueRepository {
		t.Helper()
		dsn := dbtest.PgBouncer(t, dbtest.Postgres(t, postgres.Migrations()), 4)
		s, _ := openSeen(t, dsn, sqldb.PoolerTransaction, 2*time.Second)
		return s
	})
}

// lock locks a row in another transaction.
func lock(t *testing.T, db *sqlx.DB, id counting.ItemID) apptest.Holder {
	t.Helper()
	return apptest.Hold(t, db, `SELECT FROM counts.count_values WHERE item_id = $1 FOR UPDATE`, string(id))
}

// inBackground makes n calls at once and returns the channel of their errors.
func inBackground(n int, call func(i int) error) chan error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- call(i) }()
	}
	return errs
}

// wantDone waits for the calls, which must succeed.
func wantDone(t *testing.T, calls chan error) {
	t.Helper()
	for range cap(calls) {
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
}

// wantNone fails the test if one of the calls has ended.
func wantNone(t *testing.T, calls chan error) {
	t.Helper()
	select {
	case err := <-calls:
		t.Fatalf("a call that should wait was answered: %v", err)
	default:
	}
}

func mustCreate(t *testing.T, s *replica, ids ...counting.ItemID) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Create(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func wantValue(t *testing.T, s *replica, id counting.ItemID, want int64) {
	t.Helper()
	if v, err := s.Find(t.Context(), id); err != nil || v.Current != want {
		t.Errorf("%s is %d (%v), want %d", id, v.Current, err, want)
	}
}

// Another transaction changes the row while a group waits for its lock: the
// answer counts from the new value.
func TestWaitSeesTheNewValue(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "b")
	holder := apptest.Hold(t, db, `UPDATE counts.count_values SET current_value = 1000 WHERE item_id = 'a'`)
	var answers sync.WaitGroup
	for _, id := range []counting.ItemID{"a", "b"} {
		answers.Go(func() {
			want := map[counting.ItemID]int64{"a": 1001, "b": 1}[id]
			if v, err := countingtest.Add(t.Context(), s, id, 1); err != nil || v != want {
				t.Errorf("%s: %d, %v; want %d", id, v, err, want)
			}
		})
	}
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	answers.Wait()
}

// A deleted and uncommitted row is locked, not missing; an inserted and
// uncommitted one is missing.
func TestUncommittedDeleteAndInsert(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "going")
	holder := apptest.Hold(t, db, `DELETE FROM counts.count_values WHERE item_id = 'going'`)
	holder.Execute(`INSERT INTO counts.count_values (item_id) VALUES ('coming')`)
	if _, err := countingtest.Add(t.Context(), s, "coming", 1); !errors.Is(err, counting.ErrNotFound) {
		t.Errorf("an uncommitted insert: %v", err)
	}
	going := make(chan error, 1)
	go func() {
		_, err := countingtest.Add(t.Context(), s, "going", 1)
		going <- err
	}()
	apptest.WaitForBlocked(t, db, 1)
	holder.Rollback()
	if err := <-going; err != nil {
		t.Errorf("the delete was rolled back, but: %v", err)
	}
	wantValue(t, s, "going", 1)
}
