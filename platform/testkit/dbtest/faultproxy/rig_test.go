package faultproxy_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// bench is a database with one row, seen directly and through a proxy.
type bench struct {
	proxy           *faultproxy.Proxy
	direct, through *sqlx.DB
}

func setUp(t *testing.T, parameters string) bench {
	t.Helper()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	b := bench{proxy: proxy, direct: dbtest.Dial(t, dsn), through: dbtest.Dial(t, proxy.DSN(dsn)+parameters)}
	b.do(t, "CREATE TABLE c (n int NOT NULL)")
	b.do(t, "INSERT INTO c VALUES (0)")
	return b
}

func (b bench) do(t *testing.T, statement string) {
	t.Helper()
	conn := pin(t, b.direct)
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func (b bench) n(t *testing.T) int {
	t.Helper()
	var n int
	if err := b.direct.GetContext(t.Context(), &n, "SELECT n FROM c"); err != nil {
		t.Fatal(err)
	}
	return n
}

// settle waits until no other session is in the database: what was cut off has then been rolled back.
func (b bench) settle(t *testing.T) {
	t.Helper()
	waittest.Eventually(t, "the other sessions end", func() bool {
		var others int
		err := b.direct.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
		if err != nil {
			t.Fatal(err)
		}
		return others == 0
	})
}

// pin returns a connection that is closed with the test.
func pin(t *testing.T, db *sqlx.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be cut
	return conn
}

const increase = "UPDATE c SET n = n + 1"
