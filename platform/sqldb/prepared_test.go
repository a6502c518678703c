package sqldb_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

const countPrepared = `SELECT count(*) FROM pg_prepared_statements`

// preparedIn runs a query with a parameter n times in one session, and returns
// how many statements the session then holds.
func preparedIn(t *testing.T, db *sqldb.DB, n int, query func(i int) string) int {
	t.Helper()
	var held int
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		for i := range n {
			var got int
			if err := tx.GetContext(ctx, &got, query(i), i); err != nil {
				return err
			}
			if got != i {
				t.Errorf("query %d answered %d", i, got)
			}
		}
		return tx.GetContext(ctx, &held, countPrepared)
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// A session keeps up to 64 statements prepared, and none behind a pooler.
func TestStatementsAreKeptPrepared(t *testing.T) {
	t.Parallel()
	same := func(int) string { return `SELECT $1::int` }
	others := func(i int) string { return fmt.Sprintf(`SELECT $1::int -- %d`, i) }
	if held := preparedIn(t, open(t, dbtest.Empty(t)), 10, same); held != 1 {
		t.Errorf("one query left %d prepared statements, want 1", held)
	}
	if held := preparedIn(t, open(t, dbtest.Empty(t)), 100, others); held != 64 {
		t.Errorf("100 queries left %d prepared statements, want 64", held)
	}
	pooled := open(t, throughPgBouncer(t), func(s *sqldb.Settings) { s.Pooler = sqldb.PoolerTransaction })
	if held := preparedIn(t, pooled, 10, same); held != 0 {
		t.Errorf("%d prepared statements behind a pooler", held)
	}
}

// A migration makes a plan invalid that each connection of a pool holds: the connections are closed, and the statement
// runs again until it gets a new plan, alone or in a transaction.
func TestOutdatedPlansAreReplaced(t *testing.T) {
	t.Parallel()
	const conns = 6
	const rows = `SELECT * FROM counter WHERE n >= $1`
	url := counterDatabase(t)
	admin := open(t, url)
	db := open(t, url, func(s *sqldb.Settings) { s.MaxOpenConns = conns })
	for column, call := range map[string]func(context.Context, *sqldb.DB, string, ...any) error{
		"one": execOnce, "two": execTx,
	} {
		var prepared sync.WaitGroup
		prepared.Add(conns)
		waittest.Together(t, conns, func(int) error {
			return db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, rows, 0)
				if err == nil { // else the plan is of the round before
					prepared.Done()
					prepared.Wait()
				}
				return err
			})
		})
		execute(t, admin, `ALTER TABLE counter ADD COLUMN `+column+` text`)
		if err := call(t.Context(), db, rows, 0); err != nil {
			t.Errorf("%s: %v", column, err)
		}
	}
}
