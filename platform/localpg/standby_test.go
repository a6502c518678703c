package localpg

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/localpg/guard"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// eager are settings with which a standby that was away tries again at once.
func eager() map[string]string {
	return map[string]string{"fsync": "off", "wal_keep_size": "64MB", "wal_retrieve_retry_interval": "50ms"}
}

// A standby streams, takes the place of a primary that is killed, and serves; the old primary comes back as its standby
// and has exactly its rows: neither what it alone had, nor less than was written since.
func TestFailover(t *testing.T) {
	t.Parallel()
	first, err := Start(t.Context(), Options{Settings: eager()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, first) })
	write(t, first.URL("postgres"), "CREATE TABLE kept AS SELECT 1 AS n")
	second, err := StartStandby(t.Context(), first, Options{Settings: eager()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, second) })

	const rows = "SELECT string_agg(n::text, ',' ORDER BY n) FROM kept"
	wantRows := func(s *Server, want string) {
		t.Helper()
		waittest.Eventually(t, "the server has the rows "+want, func() bool {
			var got string
			err := session(t, s.URL("postgres"), func(conn *sql.Conn) error {
				return conn.QueryRowContext(t.Context(), rows).Scan(&got)
			})
			return err == nil && got == want
		})
	}
	write(t, first.URL("postgres"), "INSERT INTO kept VALUES (2)")
	wantRows(second, "1,2")
	names := "SELECT string_agg(application_name, ',') FROM pg_stat_replication"
	if got := text(t, first.URL("postgres"), names); got != StandbyName {
		t.Errorf("the primary's standbys are %q", got)
	}
	if got := text(t, second.URL("postgres"), "SHOW transaction_read_only"); got != "on" {
		t.Errorf("the standby takes writes")
	}

	// The standby is away for the third row, which is lost with the primary.
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	write(t, first.URL("postgres"), "INSERT INTO kept VALUES (3)")
	if err := first.Rejoin(t.Context(), second); err == nil {
		t.Error("a server rejoins another one while it runs")
	}
	if err := first.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, second.URL("postgres"), "INSERT INTO kept VALUES (4)")
	if err := first.Rejoin(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	write(t, second.URL("postgres"), "INSERT INTO kept VALUES (5)")
	wantRows(second, "1,2,4,5")
	wantRows(first, "1,2,4,5")

	// And back again: the first server has all that it needs to take over.
	if err := second.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, first.URL("postgres"), "INSERT INTO kept VALUES (6)")
	wantRows(first, "1,2,4,5,6")
}

// What a standby cannot be made of is said in a sentence.
func TestStandbyRefused(t *testing.T) {
	t.Parallel()
	primary := &Server{Server: guard.NewServer(guard.Config{}), password: "s3cret"} // whose folder of programs is empty
	_, err := StartStandby(t.Context(), primary, Options{Settings: quick()})
	wantSentence(t, err, "lacks the program pg_basebackup", "install PostgreSQL")
	if strings.Contains(err.Error(), primary.password) {
		t.Error("the error has the password")
	}

	dir := folder(t)
	version := filepath.Join(dataDir(dir), "PG_VERSION")
	if err := errors.Join(os.Mkdir(dataDir(dir), 0o700), os.WriteFile(version, []byte("15\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = StartStandby(t.Context(), primary, Options{Dir: dir})
	wantSentence(t, err, dir, "already holds a PostgreSQL cluster")
}
