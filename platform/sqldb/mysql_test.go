package sqldb_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// An UPDATE that changes nothing has found its row all the same.
func TestMySQLCountsFoundRows(t *testing.T) {
	t.Parallel()
	db := open(t, mariaCounters(t))
	result, err := db.Once().ExecContext(t.Context(), `UPDATE counter SET n = n WHERE id = 'a'`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Errorf("%d rows, %v, want 1", n, err)
	}
}

// A server without autocommit, with chained transactions and safe updates: the first
// statements of each session set that right. Then the server is killed and restarted: the
// pool detects its dead connections before it sends anything on them.
func TestMySQLServer(t *testing.T) {
	t.Parallel()
	server, url := dbtest.MariaServer(t, map[string]string{
		"autocommit": "0", "completion-type": "1", "init-connect": "SET sql_safe_updates=1",
	})
	db := open(t, url, briefly)
	execute(t, db, `CREATE TABLE counter (id varchar(20), n bigint)`)
	execute(t, db, `INSERT INTO counter VALUES ('a', 0)`)
	for range 3 {
		if err := incrementOnce(db)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := incrementTx(db)(t.Context()); err != nil {
			t.Fatal(err)
		}
		value(t, db, "a") // leaves no transaction open that the next round would meet
	}
	wantValue(t, open(t, url), "a", 6)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	wantError(t, incrementTx(db)(t.Context()), sqldb.NotApplied, sqldb.Connection)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := incrementTx(db)(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 7)
}
