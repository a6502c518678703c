package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Many resets of locked counts do not stop the changes of other counts and reads, though each is a transaction that
// waits in the database.
func TestResetsOfLockedRowsLeaveThePool(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	ids := []counting.ItemID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} // more than connections
	mustCreate(t, s, append(ids, "free")...)
	holder := apptest.Hold(t, db, `SELECT FROM counts.count_values WHERE item_id <> 'free' FOR UPDATE`)
	resets := inBackground(60, func(i int) error {
		_, err := s.setTo(t.Context(), ids[i%len(ids)], 5)
		return err
	})
	apptest.WaitForBlocked(t, db, 1)

	for i := range 50 {
		if v, err := countingtest.Add(t.Context(), s, "free", 1); err != nil || v != int64(i+1) {
			t.Fatalf("free: %d, %v", v, err)
		}
		if v, err := s.setTo(t.Context(), "free", int64(i+1)); err != nil || v.Current != int64(i+1) {
			t.Fatalf("set: %d, %v", v.Current, err)
		}
		if _, err := s.Find(t.Context(), "a"); err != nil {
			t.Fatalf("read beside the resets: %v", err)
		}
	}
	wantNone(t, resets)
	holder.Rollback()
	wantDone(t, resets)
	wantValue(t, s, "a", 5)
}

// A row or a table that is locked for longer than a caller waits is a definite answer, in time.
func TestLockedForTooLongIsSurelyNotApplied(t *testing.T) {
	t.Parallel()
	add := func(ctx context.Context, s *replica) error {
		_, err := countingtest.Add(ctx, s, "locked", 1)
		return err
	}
	remove := func(ctx context.Context, s *replica) error { return s.Delete(ctx, "locked") }
	const row = `SELECT FROM counts.count_values FOR UPDATE`
	for name, tc := range map[string]struct {
		lock   string
		change func(ctx context.Context, s *replica) error
	}{
		"add, row": {row, add}, "delete, row": {row, remove},
		"add, table": {`LOCK TABLE counts.count_values IN ACCESS EXCLUSIVE MODE`, add},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, db := openStore(t, dsn, sqldb.PoolerNone), dbtest.Dial(t, dsn)
			mustCreate(t, s, "locked")
			holder := apptest.Hold(t, db, tc.lock)

			if err := tc.change(t.Context(), s); !errors.Is(err, groupcommit.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
			holder.Rollback()
			if v, err := countingtest.Add(t.Context(), s, "locked", 10); err != nil || v != 10 {
				t.Errorf("afterwards: %d, %v; want 10", v, err)
			}
		})
	}
}
