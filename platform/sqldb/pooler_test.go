package sqldb_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// limitedRole makes a role with the counters' rights and room for one
// connection, and returns the URL to log in as it.
func limitedRole(tb testing.TB, db *sqldb.DB, rawURL string) string {
	tb.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256([]byte(rawURL))
	name := "role_" + hex.EncodeToString(sum[:8])
	execute(tb, db, `CREATE ROLE `+name+` LOGIN PASSWORD 'test' CONNECTION LIMIT 1;
		GRANT SELECT, UPDATE ON counter TO `+name)
	tb.Cleanup(func() {
		err := db.InTx(context.WithoutCancel(tb.Context()), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, `DROP OWNED BY `+name+`; DROP ROLE `+name)
			return err
		})
		if err != nil {
			tb.Errorf("drop the role: %v", err)
		}
	})
	u.User = url.UserPassword(name, "test")
	return u.String()
}

// pooled opens a pool through PgBouncer in transaction mode with two server
// connections.
func pooled(tb testing.TB, direct string) *sqldb.DB {
	tb.Helper()
	const serverConnections = 2
	return open(tb, dbtest.PgBouncer(tb, direct, serverConnections), func(s *sqldb.Settings) {
		s.Pooler, s.MaxOpenConns = sqldb.PoolerTransaction, 16
	})
}

// TestPoolerAnswersBelongToTheirQuestions: sixteen clients share two server
// connections, and each gets the rows it asked for.
func TestPoolerAnswersBelongToTheirQuestions(t *testing.T) {
	t.Parallel()
	db := pooled(t, counterDatabase(t))
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			for j := range 60 {
				var got, want string
				if j%2 == 0 {
					want = fmt.Sprintf("%d/%d", i, j)
					errs[i] = db.GetContext(t.Context(), &got, `SELECT $1::text`, want)
				} else {
					want = fmt.Sprintf("%d-%d", i, j)
					errs[i] = db.GetContext(t.Context(), &got, `SELECT concat_ws('-', $1::int, $2::int)`, i, j)
				}
				if errs[i] == nil && got != want {
					errs[i] = fmt.Errorf("got %q, want %q", got, want)
				}
				if errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestPoolerTransactionSettings: a transaction has its timeouts, and leaves
// nothing behind on the server connection.
func TestPoolerTransactionSettings(t *testing.T) {
	t.Parallel()
	db := pooled(t, counterDatabase(t))
	const show = `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'),
		current_setting('idle_in_transaction_session_timeout'))`
	for range 8 {
		var inside, outside string
		err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error { return tx.GetContext(ctx, &inside, show) },
			sqldb.WithLockTimeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err = db.GetContext(t.Context(), &outside, show); err != nil {
			t.Fatal(err)
		}
		if inside != "1s 8s 10s" || outside != "0 0 0" {
			t.Fatalf("inside %q, outside %q", inside, outside)
		}
	}
}

// TestPoolerIncrements: the exact sum, through statements and transactions.
func TestPoolerIncrements(t *testing.T) {
	t.Parallel()
	direct := counterDatabase(t)
	db := pooled(t, direct)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		call := incrementOnce(db)
		if i%2 == 1 {
			call = incrementTx(db, sqldb.ResolveOutcome())
		}
		wg.Go(func() {
			for range 20 {
				if errs[i] = call(t.Context()); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := value(t, open(t, direct), "a"); n != 320 {
		t.Errorf("n = %d, want 320", n)
	}
}

// TestPoolerOnceTimesOut: no startup parameter told the server when to give up,
// so Once asks it to cancel, and the server's answer is certain.
func TestPoolerOnceTimesOut(t *testing.T) {
	t.Parallel()
	direct := counterDatabase(t)
	db := open(t, dbtest.PgBouncer(t, direct, 2), func(s *sqldb.Settings) {
		s.Pooler, s.LockTimeout, s.StatementTimeout = sqldb.PoolerTransaction, 100*time.Millisecond, 300*time.Millisecond
	})
	release := hold(t, open(t, direct), "a")
	err := db.Once(t.Context(), increment)
	wantError(t, err, sqldb.NotApplied, sqldb.Timeout)
	if sqldb.SQLState(err) != "57014" {
		t.Errorf("got %v", err)
	}
	release()
	if err := db.Once(t.Context(), increment); err != nil {
		t.Error(err)
	}
	if n := value(t, open(t, direct), "a"); n != 1 {
		t.Errorf("n = %d", n)
	}
}
