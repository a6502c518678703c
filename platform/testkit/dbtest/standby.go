package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Standby starts an asynchronous standby of primary for this test only, like [Server]. If pg_basebackup
// is not installed, the test is skipped, or fails with CI=true.
func Standby(t testing.TB, primary *localpg.Server) *localpg.Server {
	t.Helper()
	_, err := os.Stat(filepath.Join(primary.BinDir(), "pg_basebackup"))
	skipOrFail(t, err, os.ErrNotExist)

	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	again := map[string]string{"wal_retrieve_retry_interval": "50ms"} // reconnect quickly; the default is 5 s
	own, err := localpg.StartStandby(ctx, primary, localpg.Options{Settings: private([]map[string]string{again})})
	return owned(t, own, err)
}

// WaitForStandby makes commits on primary wait for its standby from now on.
func WaitForStandby(t testing.TB, primary *localpg.Server) {
	t.Helper()
	err := onAdmin(t.Context(), primary.URL("postgres"), func(conn *sql.Conn) error {
		err := errors.Join(
			run(t.Context(), conn, fmt.Sprintf("ALTER SYSTEM SET synchronous_standby_names = '%s'", localpg.StandbyName)),
			run(t.Context(), conn, "SELECT pg_reload_conf()"))
		waittest.Eventually(t, "the standby is synchronous", func() bool {
			var synchronous bool
			const query = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'"
			return conn.QueryRowContext(t.Context(), query).Scan(&synchronous) == nil && synchronous
		})
		return err
	})
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// BothHosts returns the superuser's URL of the database postgres with both servers as hosts.
func BothHosts(t testing.TB, first, second *localpg.Server) string {
	t.Helper()
	u, err := url.Parse(first.URL("postgres"))
	if err != nil {
		t.Fatal("dbtest: the server's URL cannot be read")
	}
	u.Host = ""
	u.RawQuery += fmt.Sprintf("&host=127.0.0.1,127.0.0.1&port=%d,%d", first.Port(), second.Port())
	return u.String()
}
