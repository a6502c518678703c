package migrate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"

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

const (
	replicas = 10
	rounds   = 20
)

// TestReplicasStartTogether: ten processes on an empty database, twenty rounds.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	for range rounds {
		startTogether(t, dbtest.Empty(t), replicas)
	}
}

// TestReplicasStartTogetherBehindPooler: the same through PgBouncer in
// transaction mode, where a session lock would be everybody's.
func TestReplicasStartTogetherBehindPooler(t *testing.T) {
	t.Parallel()
	for range 5 {
		direct := dbtest.Empty(t)
		startTogetherAt(t, dbtest.PgBouncer(t, direct, 4), direct, replicas)
	}
}

func startTogether(t *testing.T, url string, n int) {
	t.Helper()
	startTogetherAt(t, url, url, n)
}

func startTogetherAt(t *testing.T, url, direct string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		cmd, stderr := child(t, url)
		wg.Go(func() {
			<-start
			if err := cmd.Run(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, stderr)
			}
		})
	}
	close(start)
	wg.Wait()
	wantComplete(t, connect(t, direct))
}

// TestKilledInTheMiddle: kill -9 while a migration runs; the next one finishes.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	db := connect(t, url)
	// The process cannot get past ALTER TABLE or the index while these are held.
	execute(t, db, `CREATE SCHEMA shop`)
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
		scan(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`, &n)
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
	if err = migrate.Up(t.Context(), url, source(), quiet()); err != nil {
		t.Fatal(err)
	}
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
