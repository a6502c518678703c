package dbtest_test

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Through the pooler, 20 sessions at once on 3 server connections, each reads its own writes.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	through := dbtest.PgBouncer(t, dsn, 3)
	db := dbtest.Dial(t, through)
	execute(t, db, "CREATE TABLE c (n int NOT NULL)")
	execute(t, db, "INSERT INTO c VALUES (0)")
	waittest.Together(t, 20, func(int) error {
		for range 10 {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(t.Context(), "UPDATE c SET n = n + $1", 1)
			if err := errors.Join(err, tx.Commit()); err != nil {
				return err
			}
		}
		return nil
	})
	if n := number(t, db, "SELECT n FROM c"); n != 200 {
		t.Errorf("n = %d, want 200", n)
	}
	servers := number(t, dbtest.Dial(t, dsn), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	if servers < 1 || servers > 3 {
		t.Errorf("%d connections to the server, want 1 to 3", servers)
	}
	// As in production, startup parameters are refused.
	if err := dbtest.Dial(t, through+"&statement_timeout=1000").PingContext(t.Context()); err == nil {
		t.Error("statement_timeout was accepted as a startup parameter")
	}
}
