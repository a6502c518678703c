package sqldb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

const (
	showPostgres = `SELECT concat_ws(', ', current_setting('transaction_isolation'), current_setting('lock_timeout'),
		current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),
		current_setting('client_connection_check_interval'))`
	// MySQL has no idle_transaction_timeout of 10 seconds, but a wait_timeout of 10 minutes.
	showMariaDB = `SELECT concat_ws(', ', /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */,
		@@innodb_lock_wait_timeout,
		/*M! @@max_statement_time */ /*!80000 cast(@@max_execution_time / 1000 AS decimal(9, 6)) */,
		/*M! @@idle_transaction_timeout */ /*!80000 @@wait_timeout DIV 60 */)`
)

func throughPgBouncer(tb testing.TB) string {
	tb.Helper()
	return dbtest.PgBouncer(tb, dbtest.Empty(tb), 1)
}

// TestSettings: a transaction and a single statement run with the pool's settings. What a
// transaction asks for ends with it.
func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url           func(testing.TB) string
		pooler        sqldb.Pooler
		show          string
		own, pools    string // of a transaction with settings of its own, and without
		outsideOfThem string // of a single statement
	}{
		"PostgreSQL": {
			dbtest.Empty, sqldb.PoolerNone, showPostgres,
			"read committed, 1500ms, 2min, 2s, 200ms", "read committed, 5s, 8s, 2s, 200ms",
			"read committed, 5s, 8s, 2s, 200ms",
		},
		"PgBouncer": {
			throughPgBouncer, sqldb.PoolerTransaction, showPostgres,
			"read committed, 1500ms, 2min, 2s, 0", "read committed, 5s, 8s, 2s, 0",
			"read committed, 0, 0, 0, 0",
		},
		"MariaDB": {
			dbtest.EmptyMariaDB, sqldb.PoolerNone, showMariaDB,
			"READ-COMMITTED, 2, 120.000000, 10", "READ-COMMITTED, 5, 8.000000, 10",
			"READ-COMMITTED, 5, 8.000000, 10",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, c.url(t), func(s *sqldb.Settings) { s.Pooler, s.MaxOpenConns = c.pooler, 1 })
			inTx := func(want string, opts ...sqldb.Option) {
				t.Helper()
				var got string
				err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
					return tx.GetContext(ctx, &got, c.show)
				}, opts...)
				if err != nil || got != want {
					t.Errorf("a transaction has %q, want %q: %v", got, want, err)
				}
			}
			own := []sqldb.Option{
				sqldb.WithLockTimeout(1500 * time.Millisecond), sqldb.WithStatementTimeout(2 * time.Minute),
			}
			inTx(c.pools)
			inTx(c.own, own...)
			inTx(c.pools)
			inTx(c.own, own...)
			var got string // must not inherit the transaction's
			err := db.Once().GetContext(t.Context(), &got, c.show)
			if err != nil || got != c.outsideOfThem {
				t.Errorf("a single statement has %q, want %q: %v", got, c.outsideOfThem, err)
			}
		})
	}
}
