package migrate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/waittest"
)

// childURL makes the test binary a replica that migrates and ends.
const childURL = "MIGRATE_TEST_CHILD_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := migrate.Up(context.Background(), url, source(), slog.New(slog.NewJSONHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(dbtest.Main(m))
}

// Ten processes on an empty database, directly and through PgBouncer in transaction mode, where a session lock would
// stay with a server connection.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	for range 20 {
		dsn := dbtest.Empty(t)
		startTogether(t, dsn, dsn)
	}
	for range 5 {
		direct := dbtest.Empty(t)
		startTogether(t, dbtest.PgBouncer(t, direct, 4), direct)
	}
}

func startTogether(t *testing.T, dsn, direct string) {
	t.Helper()
	if err := waittest.Together(10, func(i int) error {
		cmd, stderr := child(t, dsn)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("process %d: %w\n%s", i, err, stderr)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	wantComplete(t, apptest.Open(t, direct))
}

// After kill -9 while a migration runs the next process finishes.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	db := apptest.Open(t, url)
	apptest.Execute(t, db, `CREATE SCHEMA shop`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The name of the first table is taken by a transaction that has not ended,
	// so that the migration waits in the middle, holding the lock.
	if _, err = tx.ExecContext(t.Context(), `CREATE TABLE shop.item ()`); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := child(t, url)
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the migration runs", func() bool {
		var n int
		scan(t, db, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`, &n)
		return n > 0
	})
	if err = cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err = cmd.Wait(); err == nil {
		t.Fatalf("the killed process succeeded: %s", stderr)
	}
	if err = tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	up(t, url, source())
	wantComplete(t, db)
}

// child is this test binary as a replica.
func child(t *testing.T, url string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childURL+"="+url)
	cmd.Stderr = &stderr
	return cmd, &stderr
}
