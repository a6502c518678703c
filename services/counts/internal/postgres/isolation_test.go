package postgres_test

import (
	"errors"
	"math"
	"testing"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A crowd that resets a locked count must not stop the increments of others,
// though its calls are single transactions that wait in the database.
func TestCrowdOnAHeldRowLeavesThePool(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "held", "free")
	release := hold(t, db, "held")
	crowd := make(chan error, 60)
	for range cap(crowd) {
		go func() {
			_, err := s.Set(t.Context(), "held", 5)
			crowd <- err
		}()
	}
	waitForBlocked(t, db)
	for i := range 100 {
		if v, err := s.Add(t.Context(), "free", 1); err != nil || v != int64(i+1) {
			t.Fatalf("free: %d, %v", v, err)
		}
		if _, err := s.Find(t.Context(), "held"); err != nil {
			t.Fatalf("read beside the crowd: %v", err)
		}
	}
	select {
	case err := <-crowd:
		t.Fatalf("one of the crowd was answered while the row was held: %v", err)
	default:
	}
	release()
	for range cap(crowd) {
		if err := <-crowd; err != nil {
			t.Error(err)
		}
	}
	wantValue(t, s, "held", 5)
}

// Whoever's turn does not come is told that nothing was applied.
func TestCrowdOnARowHeldForTooLong(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "held")
	release := hold(t, db, "held")
	crowd := make(chan error, 5)
	for range cap(crowd) {
		go func() { crowd <- s.Delete(t.Context(), "held") }()
	}
	for range cap(crowd) {
		err := <-crowd
		if outcome, ours := sqldb.OutcomeOf(err); !errors.Is(err, bulkhead.ErrBusy) && (!ours || outcome != sqldb.NotApplied) {
			t.Errorf("got %v", err)
		}
	}
	release()
	wantValue(t, s, "held", 0)
}

// Adds that cannot fit as a sum, on a row that a stranger holds: they wait in
// the slow lane, and the others are not made to wait for each of them.
func TestHugeAddsOnAHeldRowDelayNobodyElse(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "held", "free")
	release := hold(t, db, "held")
	huge := make(chan error, 60)
	for range cap(huge) {
		go func() {
			_, err := s.Add(t.Context(), "held", math.MaxInt64)
			huge <- err
		}()
	}
	waitForBlocked(t, db)
	for range 20 {
		if _, err := s.Add(t.Context(), "free", 1); err != nil {
			t.Fatal(err)
		}
	}
	// Tried one by one on the locked row, 60 x 50 ms, they would hold these up and
	// be out of time themselves.
	release()
	var won, refused int
	for range cap(huge) {
		switch err := <-huge; {
		case err == nil:
			won++
		case errors.Is(err, counting.ErrOverflow):
			refused++
		default:
			t.Error(err)
		}
	}
	if won != 1 || refused != cap(huge)-1 {
		t.Errorf("%d fitted and %d were refused, want 1 and %d", won, refused, cap(huge)-1)
	}
	wantValue(t, s, "held", math.MaxInt64)
}

// ALTER TABLE holds the table for longer than anybody waits: that is a definite
// answer, in time.
func TestLockedTableIsSurelyNotApplied(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), observer(t, dsn)
	mustCreate(t, s, "a")
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE counts.count_values IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), "a", 1); !errors.Is(err, coalesce.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Add(t.Context(), "a", 1); err != nil || v != 1 {
		t.Errorf("afterwards: %d, %v; want 1: the refused add was not applied", v, err)
	}
}
