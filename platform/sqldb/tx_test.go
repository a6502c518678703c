package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

var errDomain = errors.New("no such count")

func TestInTxReturnsDomainErrorsUnchanged(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	// The second is what another service's timeout looks like.
	for _, want := range []error{errDomain, fmt.Errorf("processor: %w", context.DeadlineExceeded)} {
		err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := add(ctx, tx, "a", 1); err != nil {
				return err
			}
			return want
		})
		if err != want { //nolint:errorlint // unchanged means identical
			t.Errorf("got %v, want %v", err, want)
		}
	}
	wantValue(t, db, "a", 0)
}

func TestInTxRollsBackAfterPanic(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t), func(s *sqldb.Settings) { s.MaxOpenConns = 1 })
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := add(ctx, tx, "a", 1); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	// With one connection in the pool this also shows that it came back.
	wantValue(t, db, "a", 0)
}

// TestLockTimeoutFailsTheTransaction: after a lock timeout (1205) MySQL would commit the
// rest of a transaction. Nothing of it may stay, whether or not fn returns the error.
func TestLockTimeoutFailsTheTransaction(t *testing.T) {
	t.Parallel()
	for engine, database := range counters() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			db := open(t, url, briefly)
			hold(t, open(t, url), "b")
			for _, swallow := range []bool{false, true} {
				err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
					if err := add(ctx, tx, "a", 1); err != nil {
						return err
					}
					var err error
					if swallow { // MySQL reports this one while rows are read
						err = tx.GetContext(ctx, new(int), `SELECT n FROM counter WHERE id > 'a' FOR UPDATE`)
					} else {
						err = add(ctx, tx, "b", 1)
					}
					wantError(t, sqldb.Classify(err, false), sqldb.NotApplied, sqldb.LockTimeout)
					if !swallow {
						return err
					}
					if err := add(ctx, tx, "a", 10); err == nil {
						t.Error("a statement after the failure was sent")
					}
					return nil
				})
				if outcome, ok := sqldb.OutcomeOf(err); !ok || outcome != sqldb.NotApplied || !swallow && !sqldb.LockTimedOut(err) {
					t.Errorf("swallowed %t: got %v", swallow, err)
				}
				wantValue(t, db, "a", 0)
			}
			if err := incrementTx(db)(t.Context()); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}

// TestInTxDeadlineBeforeCommit: the context ends while a statement waits, and
// the driver shows 57014 or a broken connection instead of the deadline.
func TestInTxDeadlineBeforeCommit(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	hold(t, db, "a")
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := incrementTx(db)(ctx)
		wantError(t, err, sqldb.NotApplied, sqldb.Timeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not say that the deadline passed", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			waitBlocked(t, db, 1)
			cancel()
		}()
		err := incrementTx(db)(ctx)
		wantError(t, err, sqldb.NotApplied, sqldb.Canceled)
	})
	t.Run("between fn and COMMIT", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			defer cancel()
			return add(ctx, tx, "b", 1)
		})
		wantError(t, err, sqldb.NotApplied, sqldb.Canceled)
		if n := value(t, db, "b"); n != 0 {
			t.Errorf("n = %d", n)
		}
	})
}

// A transaction with a statement timeout of its own does not end with the role's transaction_timeout, of PostgreSQL 17.
func TestLongTransaction(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	short := apptest.One[string](t, open(t, url), `SELECT coalesce(string_agg('&' || name || '=100', ''), '')
		FROM pg_settings WHERE name = 'transaction_timeout'`)
	err := open(t, url+short).InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `SELECT pg_sleep(0.3)`)
		return err
	}, sqldb.WithStatementTimeout(time.Minute))
	if err != nil {
		t.Error(err)
	}
}

func TestStatementTimeoutIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `SELECT pg_sleep(10)`)
		return err
	}, sqldb.WithStatementTimeout(50*time.Millisecond))
	wantError(t, err, sqldb.NotApplied, sqldb.Timeout)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the server's timeout is shown as the context's")
	}
}

// TestInTxRetriesDeadlocks locks a and b in opposite order in two transactions that both hold their first lock. One is
// the victim; its retry may overtake the other one at the row that it has just freed, and then there is another victim.
func TestInTxRetriesDeadlocks(t *testing.T) {
	t.Parallel()
	for engine, database := range counters() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			reg := prometheus.NewRegistry()
			db := apptest.Pool(t, sqldb.Settings{URL: url, Engines: bothEngines()}, reg)
			var meet sync.WaitGroup
			var runs atomic.Int32
			meet.Add(2)
			orders := [][]string{{"a", "b"}, {"b", "a"}}
			waittest.Together(t, len(orders), func(i int) error {
				var once sync.Once
				return db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
					runs.Add(1)
					if err := add(ctx, tx, orders[i][0], 1); err != nil {
						return err
					}
					once.Do(func() { meet.Done(); meet.Wait() })
					return add(ctx, tx, orders[i][1], 1)
				})
			})
			wantValue(t, db, "a", 2)
			wantValue(t, db, "b", 2)
			retries := runs.Load() - 2
			state := map[string]string{"postgresql": "40P01", "mysql": "40001"}[engine]
			n := apptest.Gathered(t, reg, `rowlock_retries_total{pool="main",sqlstate="`+state+`"}`)
			if retries < 1 || n != float64(retries) {
				t.Errorf("fn ran %d times more than there were transactions, and %v retries of deadlocks were counted", retries, n)
			}
		})
	}
}

func TestInTxGivesUpAfterThreeTries(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	runs := 0
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		runs++
		_, err := tx.ExecContext(ctx, `DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40001'; END $$`)
		return err
	})
	wantError(t, err, sqldb.NotApplied, sqldb.Serialization)
	if runs != 3 {
		t.Errorf("fn ran %d times, want 3", runs)
	}
}

// TestInTxDoesNotRetryCommit: a deferred trigger makes COMMIT itself fail with
// 40001. The answer is certain, but a second COMMIT is never sent.
func TestInTxDoesNotRetryCommit(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	execute(t, db, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION SQLSTATE '40001'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION refuse()`)
	runs := 0
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		runs++
		return add(ctx, tx, "a", 1)
	})
	wantError(t, err, sqldb.NotApplied, sqldb.Serialization)
	if runs != 1 {
		t.Errorf("fn ran %d times, want 1", runs)
	}
	wantValue(t, db, "a", 0)
}

// TestCommitOutlivesItsCaller: a context that ends while COMMIT is under way
// does not make its outcome unknown.
func TestCommitOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	db := open(t, counterDatabase(t))
	execute(t, db, `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER linger AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION linger()`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- incrementTx(db)(ctx) }()
	waittest.Eventually(t, "COMMIT is under way", func() bool {
		var committing int
		err := db.GetContext(t.Context(), &committing, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND query = 'COMMIT'`)
		return err == nil && committing == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 1)
}
