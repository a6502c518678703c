package migrate_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// compatible begins a migration.
const compatible = "-- rowlock: compatible\n-- +goose Up\n"

// mariaSource is a table and, as a transaction of its own, its one row.
func mariaSource(more map[string]string) migrate.Source {
	files := fstest.MapFS{
		"migrations/00001_one.sql":  {Data: []byte(compatible + "CREATE TABLE IF NOT EXISTS one (id bigint NOT NULL);\n")},
		"migrations/00002_seed.sql": {Data: []byte(compatible + "INSERT INTO one (id) VALUES (7);\n")},
	}
	for name, content := range more {
		files["migrations/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	return migrate.Source{Engine: sqldb.MySQL, Schema: "one", HistorySchema: "one_meta", FS: files}
}

// onMaria runs f on a plain connection.
func onMaria(t *testing.T, url string, f func(conn *sql.Conn) error) {
	t.Helper()
	connector, err := sqldb.Connector(url, "", "")
	if err == nil {
		err = localpg.OnSession(t.Context(), connector, f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// count returns the answer to a query for one number.
func count(t *testing.T, url, query string) (n int) {
	t.Helper()
	onMaria(t, url, func(conn *sql.Conn) error { return conn.QueryRowContext(t.Context(), query).Scan(&n) })
	return n
}

func wantOne(t *testing.T, url, query string, want int) {
	t.Helper()
	if n := count(t, url, query); n != want {
		t.Errorf("%s: %d, want %d", query, n, want)
	}
}

func TestMariaDBTenAtOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.EmptyMariaDB(t)
	waittest.Together(t, 10, func(int) error {
		return migrate.Up(t.Context(), url, mariaSource(nil), patience, quiet())
	})
	wantOne(t, url, `SELECT count(*) FROM one`, 1)
	wantOne(t, url, `SELECT count(*) FROM one_goose_db_version WHERE version_id > 0`, 2)
	verify(t, url, mariaSource(nil))
}

// A crash while the history was made, or after the DDL of a migration: the history is there without its first row, and
// the table without a line in the history. The next process completes both.
func TestMariaDBCompletesTheHistory(t *testing.T) {
	t.Parallel()
	url := dbtest.EmptyMariaDB(t)
	up(t, url, mariaSource(nil))
	onMaria(t, url, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), "DELETE FROM one")
		_, historyErr := conn.ExecContext(t.Context(), "DELETE FROM one_goose_db_version")
		return errors.Join(err, historyErr)
	})
	up(t, url, mariaSource(nil))
	wantOne(t, url, `SELECT id FROM one`, 7)
	wantOne(t, url, `SELECT count(*) FROM information_schema.statistics
		WHERE table_schema = database() AND index_name = 'goose_db_version_once'`, 1)
}

// A migration that failed is not in the history, its rows are gone, and the
// corrected one is applied. The lock is free again.
func TestMariaDBFailedMigration(t *testing.T) {
	t.Parallel()
	url := dbtest.EmptyMariaDB(t)
	bad := mariaSource(map[string]string{
		"00003_bad.sql": compatible + "INSERT INTO one (id) VALUES (8);\nINSERT INTO nowhere (id) VALUES (1);\n",
	})
	err := migrate.Up(t.Context(), url, bad, patience, quiet())
	if err == nil || !strings.Contains(err.Error(), "00003_bad.sql") {
		t.Fatalf("got %v", err)
	}
	wantOne(t, url, `SELECT count(*) FROM one`, 1)
	good := mariaSource(map[string]string{"00003_bad.sql": compatible + "INSERT INTO one (id) VALUES (8);\n"})
	up(t, url, good)
	wantOne(t, url, `SELECT count(*) FROM one`, 2)
}

// While another session holds the lock nothing is applied; two schemas of one
// server do not wait for each other.
func TestMariaDBWaitsForTheLock(t *testing.T) {
	t.Parallel()
	url, other := dbtest.EmptyMariaDB(t), dbtest.EmptyMariaDB(t)
	onMaria(t, url, func(conn *sql.Conn) error {
		var got int
		query := migrate.TryLockMySQL(mariaSource(nil))
		if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != 1 {
			t.Fatalf("lock: %d, %v", got, err)
		}
		if err := migrate.Up(t.Context(), other, mariaSource(nil), patience, quiet()); err != nil {
			t.Errorf("another database: %v", err)
		}
		var id int
		if err := conn.QueryRowContext(t.Context(), "SELECT connection_id()").Scan(&id); err != nil {
			return err
		}
		err := migrate.Up(t.Context(), url, mariaSource(nil), 200*time.Millisecond, quiet())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d of the role ", id)) {
			t.Errorf("the holder is not named: %v", err)
		}
		wantOne(t, url, `SELECT count(*) FROM information_schema.tables WHERE table_schema = database()`, 0)

		done := make(chan error, 1)
		go func() { done <- migrate.Up(t.Context(), url, mariaSource(nil), patience, quiet()) }()
		waittest.Eventually(t, "it is connected", func() bool {
			return count(t, url, `SELECT count(*) FROM information_schema.processlist
				WHERE db = database() AND id <> connection_id()`) > 1
		})
		if _, err := conn.ExecContext(t.Context(), "DO RELEASE_ALL_LOCKS()"); err != nil {
			return err
		}
		return <-done
	})
	wantOne(t, url, `SELECT count(*) FROM one`, 1)
}
