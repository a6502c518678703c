package dbtest_test

import (
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// Through the pooler, 20 sessions at once on 3 server connections, each reads its own writes.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	db := open(t, dbtest.PgBouncer(t, dsn, 3))
	execute(t, db, "CREATE TABLE c (n int NOT NULL)")
	execute(t, db, "INSERT INTO c VALUES (0)")
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			<-start
			for range 10 {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := tx.ExecContext(t.Context(), "UPDATE c SET n = n + $1", 1); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if n := number(t, db, "SELECT n FROM c"); n != 200 {
		t.Errorf("n = %d, want 200", n)
	}
	servers := number(t, open(t, dsn), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	if servers < 1 || servers > 3 {
		t.Errorf("%d connections to the server, want 1 to 3", servers)
	}
}

// As in production, the pooler refuses what it cannot carry over from one client to the next.
func TestPgBouncerIsStrict(t *testing.T) {
	t.Parallel()
	dsn := dbtest.PgBouncer(t, dbtest.Empty(t), 1)
	if err := open(t, dsn+"&statement_timeout=1000").PingContext(t.Context()); err == nil {
		t.Error("statement_timeout as a startup parameter went through")
	}
}
