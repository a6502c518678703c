package mysql_test

import (
	"context"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

// Every group notes one wait for the row of status, and one conflict if it gave up.
func TestWaitsForAnIDAreNoted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDB(t, mysql.Migrations())
	seen := apptest.NewContention(t, contention.Settings{Lock: "id"})
	s := newSeen(t, openSeen(t, dsn, seen.Metrics), seen.Metrics)
	for range 3 {
		if _, err := s.Add(t.Context(), event.New{Value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := seen.Waits(t, contention.InDatabase); n != 3 || seen.Conflicts(t, contention.LockTimeout) != 0 {
		t.Fatalf("%g waits, %g conflicts", n, seen.Conflicts(t, contention.LockTimeout))
	}
	held, let := make(chan struct{}), make(chan struct{})
	holder := make(chan error, 1)
	other := openPool(t, dsn)
	go func() {
		holder <- other.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			var id int64
			err := tx.GetContext(ctx, &id, `SELECT id FROM status FOR UPDATE`)
			close(held)
			<-let
			return err
		})
	}()
	<-held
	done := make(chan error, 1)
	go func() {
		_, err := s.Add(t.Context(), event.New{Value: "x"})
		done <- err
	}()
	waittest.Eventually(t, "it has given up once", func() bool { return seen.Conflicts(t, contention.LockTimeout) >= 1 })
	close(let)
	if err := <-holder; err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	timeouts := seen.Conflicts(t, contention.LockTimeout)
	if n, seconds := seen.Waits(t, contention.InDatabase); n != 3+timeouts+1 || seconds < 0.9 {
		t.Errorf("%g waits of %g s and %g conflicts", n, seconds, timeouts)
	}
}
