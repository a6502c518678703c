package postgres_test

import (
	"errors"
	"math"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Many resets of a locked count do not stop the increments of other counts, though each is a transaction of its own
// that waits in the database.
func TestResetsOfALockedRowLeaveThePool(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "locked", "free")
	holder := lock(t, db, "locked")
	resets := make(chan error, 60)
	for range cap(resets) {
		go func() {
			_, err := s.setTo(t.Context(), "locked", 5)
			resets <- err
		}()
	}
	apptest.WaitForBlocked(t, db, 1)
	for i := range 100 {
		if v, err := countingtest.Add(t.Context(), s, "free", 1); err != nil || v != int64(i+1) {
			t.Fatalf("free: %d, %v", v, err)
		}
		if _, err := s.Find(t.Context(), "locked"); err != nil {
			t.Fatalf("read beside the resets: %v", err)
		}
	}
	select {
	case err := <-resets:
		t.Fatalf("a reset was answered while the row was locked: %v", err)
	default:
	}
	holder.Rollback()
	for range cap(resets) {
		if err := <-resets; err != nil {
			t.Error(err)
		}
	}
	wantValue(t, s, "locked", 5)
}

// Changes of as many locked counts as there are connections, and more, do not stop those of other counts.
func TestManyLockedRowsLeaveThePool(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	ids := []counting.ItemID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	mustCreate(t, s, ids...)
	mustCreate(t, s, "free")
	holder := apptest.Hold(t, db, `SELECT FROM counts.count_values WHERE item_id <> 'free' FOR UPDATE`)
	sets := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			_, err := s.setTo(t.Context(), id, 5)
			sets <- err
		}()
	}
	apptest.WaitForBlocked(t, db, 1)
	for i := range 20 {
		if v, err := s.setTo(t.Context(), "free", int64(i)); err != nil || v.Current != int64(i) {
			t.Errorf("free: %d, %v", v.Current, err)
		}
	}
	holder.Rollback()
	for range ids {
		if err := <-sets; err != nil {
			t.Error(err)
		}
	}
}

// A change that gives up waiting in the queue was surely not applied.
func TestChangesOfARowLockedForTooLong(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), dbtest.Dial(t, dsn)
	mustCreate(t, s, "locked")
	holder := lock(t, db, "locked")
	resets := make(chan error, 5)
	for range cap(resets) {
		go func() { resets <- s.Delete(t.Context(), "locked") }()
	}
	for range cap(resets) {
		err := <-resets
		if outcome, ours := sqldb.OutcomeOf(err); !errors.Is(err, groupcommit.ErrLocked) &&
			(!ours || outcome != sqldb.NotApplied) {
			t.Errorf("got %v", err)
		}
	}
	holder.Rollback()
	wantValue(t, s, "locked", 0)
}

// Adds that cannot fit as a sum, on a row that another transaction has locked, wait in the lane: the other
// counts do not wait for each of them.
func TestHugeAddsOnALockedRowDelayNoOtherCount(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), dbtest.Dial(t, dsn)
	mustCreate(t, s, "locked", "free")
	holder := lock(t, db, "locked")
	huge := make(chan error, 60)
	for range cap(huge) {
		go func() {
			_, err := countingtest.Add(t.Context(), s, "locked", math.MaxInt64)
			huge <- err
		}()
	}
	apptest.WaitForBlocked(t, db, 1)
	for range 20 {
		if _, err := countingtest.Add(t.Context(), s, "free", 1); err != nil {
			t.Fatal(err)
		}
	}
	// Tried one by one on the locked row, 60 x 50 ms, they would hold these up and
	// be out of time themselves.
	holder.Rollback()
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
	wantValue(t, s, "locked", math.MaxInt64)
}

// ALTER TABLE locks the table for longer than any caller waits: that is a definite answer, in time.
func TestLockedTableIsSurelyNotApplied(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a")
	holder := apptest.Hold(t, db, `LOCK TABLE counts.count_values IN ACCESS EXCLUSIVE MODE`)
	if _, err := countingtest.Add(t.Context(), s, "a", 1); !errors.Is(err, groupcommit.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	holder.Rollback()
	if v, err := countingtest.Add(t.Context(), s, "a", 1); err != nil || v != 1 {
		t.Errorf("afterwards: %d, %v; want 1: the refused add was not applied", v, err)
	}
}
