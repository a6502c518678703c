package postgres_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// Every group notes one wait for the row of status, and one conflict if it gave up.
func TestWaitsForAnIDAreNoted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	seen := apptest.NewContention(t, contention.Settings{Lock: "id"})
	s := newSeen(t, openCounted(t, dsn, sqldb.PoolerNone, prometheus.NewRegistry(), seen.Metrics), seen.Metrics)
	for range 3 {
		if _, err := s.Add(t.Context(), event.New{Value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := seen.Waits(t, contention.InDatabase); n != 3 || seen.Conflicts(t, contention.LockTimeout) != 0 {
		t.Fatalf("%g waits, %g conflicts", n, seen.Conflicts(t, contention.LockTimeout))
	}
	holder, err := apptest.Open(t, dsn).BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), `SELECT FROM events.status FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Add(t.Context(), event.New{Value: "x"})
		done <- err
	}()
	waittest.Eventually(t, "it has given up once", func() bool { return seen.Conflicts(t, contention.LockTimeout) >= 1 })
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	timeouts := seen.Conflicts(t, contention.LockTimeout)
	if n, seconds := seen.Waits(t, contention.InDatabase); n != 3+timeouts+1 || seconds < 0.05 {
		t.Errorf("%g waits of %g s and %g conflicts", n, seconds, timeouts)
	}
}
