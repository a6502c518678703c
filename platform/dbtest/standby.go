package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/waittest"
)

// Standby starts an asynchronous standby of primary for one test alone, as [Server] does. Where the
// programs lack pg_basebackup the test is skipped, or, with CI=true, fails.
func Standby(t testing.TB, primary *localpg.Server) *localpg.Server {
	t.Helper()
	_, err := os.Stat(filepath.Join(primary.BinDir(), "pg_basebackup"))
	skipOrFail(t, err, os.ErrNotExist)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	own, err := localpg.StartStandby(ctx, primary, localpg.Options{Settings: private(nil)})
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
