package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// A look-up waits for a transaction that is in progress and answers what became of it. No transaction can have the slot
// afterwards.
func TestLookUpsWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string, _ []*faultproxy.Proxy) {
		t.Helper()
		r := rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)
		for applied, end := range map[bool]func(apptest.Holder){
			true: apptest.Holder.Commit, false: apptest.Holder.Rollback,
		} {
			id := uuid.New()
			slot := []any{string(list), id, time.Hour.Microseconds()}
			tx := apptest.Hold(t, r.db, postgres.NewSlotSQL, slot...)
			answer := async(func() (bool, error) { return r.LookUp(t.Context(), list, id, 0, 0) })
			r.waitForBlocked(1)
			end(tx)
			want(t, "in progress", answer, fmt.Sprint(applied, nil))
			err := r.pool.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, postgres.NewSlotSQL, slot...)
				return err
			})
			if !sqldb.IsUniqueViolation(err) {
				t.Errorf("applied %t: a transaction writes the slot after the look-up: %v", applied, err)
			}
		}
	})
}

// A look-up that finds no slot says "not applied" only while none can have expired: for five minutes after the longest
// time that the transaction may take.
func TestLateLookUpsOnShards(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateSlots)
	r := rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)
	for _, limit := range []time.Duration{0, time.Hour} {
		for late, want := range map[time.Duration]error{4 * time.Minute: nil, 6 * time.Minute: postgres.ErrSlotGone} {
			applied, err := r.LookUp(t.Context(), list, uuid.New(), limit+late, limit)
			if applied || !errors.Is(err, want) {
				t.Errorf("%s after %s: applied %t, %v, want %v", late, limit, applied, err, want)
			}
		}
	}
}

// While an upload arrives its transaction has not begun on the worker, whose timeout of idle transactions would end it.
func TestUploadsBeginOnTheirWorkerOnShards(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.OneServer(t, postgres.Migrations(), postgres.CreateSlots)
	r := rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)
	n, err := r.ApplyStaged(t.Context(), attempt.Add, list, func(yield func(*attempt.Items, error) bool) {
		for _, item := range []attempt.Item{"a", "b"} {
			if !yield(attempt.ItemsOf(item), nil) {
				return
			}
			const locks = `SELECT count(*) FROM pg_locks JOIN pg_class c ON c.oid = relation WHERE c.relname = 'slots'`
			if n := one[int](t, r.db, locks); n != 0 {
				t.Errorf("%d locks of slots are held after %s", n, item)
			}
		}
	}, "")
	if n != 2 || err != nil {
		t.Error(n, err)
	}
}

// Slots are deleted when they have expired.
func TestSlotsExpire(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, dsn string, _ []*faultproxy.Proxy) {
		t.Helper()
		r := rigOn(t, dsn, sqldb.PoolerNone, 20*time.Second)
		r.add("a")
		execute(t, r.db, `INSERT INTO iidy.slots (list, id, applied, expires_at)
			SELECT 'l' || n % 20, gen_random_uuid(), true, to_timestamp(n) FROM generate_series(1, 1500) AS n`)
		for want := range 2 {
			if err := r.DeleteExpiredSlots(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			if n := one[int](t, r.db, `SELECT 1 - count(*) FROM iidy.slots`); n != want {
				t.Errorf("%d slots were deleted, want %d", n, want)
			}
			execute(t, r.db, `UPDATE iidy.slots SET expires_at = now() - interval '1s'`)
		}
	})
}
