package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

const (
	leasedForever = `UPDATE pyggpot.pot
		SET lock = gen_random_uuid(), lock_expire_time = clock_timestamp() + interval '1 hour'`
	expire = `UPDATE pyggpot.pot SET lock_expire_time = clock_timestamp() WHERE lock IS NOT NULL`
	free   = `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL`
	// fill puts 4 gold coins into each pot and releases it, as the last statement of a holder does.
	fill = `WITH kinds AS (INSERT INTO pyggpot.coin (pot_id, denomination, coin_count) SELECT id, 100, 4 FROM pyggpot.pot)
		UPDATE pyggpot.pot SET coins = 4, lock = NULL, lock_expire_time = NULL`
)

// TestRetries: while a pot stays leased, a change tries Retries times more. An expired lease is taken over, a released
// one is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	const retries = 7
	r, db, _ := open(t, func(_ *groupcommit.Limits, o *Options) { o.Retries, o.RetryWait = retries, time.Millisecond })
	id := mustCreate(t, r, "pot", 10)
	apptest.Execute(t, db, leasedForever)
	if err := r.add(t, id, 1); !errors.Is(err, pot.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if held := r.seen.Conflicts(t, contention.Held); held != retries+1 {
		t.Errorf("%g times held, want %d", held, retries+1)
	}

	apptest.Execute(t, db, expire)
	for range 2 {
		if err := r.add(t, id, 1); err != nil {
			t.Error(err)
		}
	}
	if n := r.seen.Conflicts(t, contention.TakenOver); n != 1 {
		t.Errorf("%g leases were taken over, want 1", n)
	}
	wantTotal(t, db, 2)
}

// mustTake leases the pots of a group.
func (r replica) mustTake(t *testing.T, group ...pot.Change) (token any) {
	t.Helper()
	token, held, err := r.take(t.Context(), groupcommit.Attempt{SkipLocked: true}, group)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(held, true) {
		t.Fatalf("held: %v, want none", held)
	}
	return token
}

// send sends a group with its lease, in a new slot. The channel gets what the slot has stored.
func (r replica) send(t *testing.T, db *sqlx.DB, token any, group ...pot.Change) <-chan string {
	t.Helper()
	const slot = "01890000-0000-7000-8000-000000000000"
	apptest.Execute(t, db, `INSERT INTO pyggpot.slots (id, attempt, used_at) VALUES ('`+slot+`', 0, clock_timestamp())`)
	a := groupcommit.Attempt{Slot: slot, Number: 1, LockWait: time.Minute, Lease: token}
	stored := make(chan string, 1)
	go func() {
		if err := r.sendGroup(t.Context(), r.db.Once(), &a, group); err != nil {
			t.Error(err)
		}
		stored <- string(a.Answers)
	}()
	return stored
}

// TestFence: a group whose lease of a pot has expired, or is another's, or was released, and one that has read other
// coins than the pot has, changes nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	const nothing = `[null,null]`
	for name, tc := range map[string]struct {
		meanwhile string // happens to the first of two pots
		want      string
		stored    int64
	}{
		"the lease is valid":  {`SELECT`, `[{"moved":{"100":1}},{"moved":{"100":5}}]`, 6},
		"it has expired":      {expire + ` AND id = 1`, nothing, 0},
		"it was taken over":   {leasedForever + ` WHERE id = 1`, nothing, 0},
		"it was released":     {free + ` WHERE id = 1`, nothing, 0},
		"the pot was changed": {`INSERT INTO pyggpot.coin (pot_id, denomination, coin_count) VALUES (1, 10, 4)`, nothing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, _ := open(t)
			first, second := mustCreate(t, r, "first", 10), mustCreate(t, r, "second", 10)
			group := []pot.Change{gold(first, 1), gold(second, 5)}
			lease := r.mustTake(t, group...)
			apptest.Execute(t, db, tc.meanwhile)
			if got := <-r.send(t, db, lease, group...); got != tc.want {
				t.Errorf("stored %s, want %s", got, tc.want)
			}
			if stored := apptest.One[int64](t, db, `SELECT sum(coins) FROM pyggpot.pot`); stored != tc.stored {
				t.Errorf("%d coins are stored, want %d", stored, tc.stored)
			}
		})
	}
}

// TestAStalledGroupLosesNothing: a group waits at the row of its first pot. Meanwhile the replica's next group leases
// and changes the second one, and one more leases it. The first group's snapshot is older than all that: it must not
// write the coins that it has read.
func TestAStalledGroupLosesNothing(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	first, second := mustCreate(t, r, "first", 10), mustCreate(t, r, "second", 10)
	group := []pot.Change{gold(first, 1), gold(second, 5)}
	lease := r.mustTake(t, group...)
	other := apptest.Hold(t, db, `SELECT FROM pyggpot.pot WHERE id = $1 FOR UPDATE`, int32(first))
	stored := r.send(t, db, lease, group...)
	apptest.WaitForBlocked(t, db, 1)

	if err := r.add(t, second, 1); err != nil {
		t.Error(err)
	}
	r.mustTake(t, gold(second, 1))
	other.Rollback()

	if got, want := <-stored, `[null,null]`; got != want {
		t.Errorf("the group that waited stored %s, want %s", got, want)
	}
	r.release(t.Context(), lease, group)
	wantTotal(t, db, 1)
}

// TestLostLeasesAreCounted: the fence refuses every try whose lease has expired before it.
func TestLostLeasesAreCounted(t *testing.T) {
	t.Parallel()
	const retries = 4
	r, db, _ := open(t, func(_ *groupcommit.Limits, o *Options) {
		o.Retries, o.RetryWait, o.TTL = retries, time.Millisecond, time.Microsecond
	})
	id := mustCreate(t, r, "pot", 10)
	if err := r.add(t, id, 1); !errors.Is(err, pot.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if n := r.seen.Conflicts(t, contention.Lost); n != retries+1 {
		t.Errorf("%g leases lost, want %d", n, retries+1)
	}
	wantTotal(t, db, 0)
}

// TestAPotIsHadWhenItsHolderIsDone: a change of a pot whose holder is writing waits for that at the pot's row. It sees
// what the holder wrote.
func TestAPotIsHadWhenItsHolderIsDone(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, "pot", 10)
	apptest.Execute(t, db, leasedForever)
	holder := apptest.Hold(t, db, fill)
	done := make(chan error, 1)
	go func() { done <- r.add(t, id, 1) }()
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantTotal(t, db, 5)
}

// TestALockedRowDelaysItsOwnCallers: a pot whose row another session locks delays its callers alone, be it locked
// before the pot is leased or under its lease. It is had again as soon as its row is free.
func TestALockedRowDelaysItsOwnCallers(t *testing.T) {
	t.Parallel()
	for name, leased := range map[string]bool{"before the lease": false, "under the lease": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, _ := open(t, func(_ *groupcommit.Limits, o *Options) { o.TTL = time.Hour })
			locked, other := mustCreate(t, r, "locked", 100), mustCreate(t, r, "free", 100)
			if leased { // as by a group that could not release it
				r.mustTake(t, gold(locked, 1))
			}
			holder := apptest.Hold(t, db, `SELECT FROM pyggpot.pot WHERE id = $1 FOR UPDATE`, int32(locked))

			done := make(chan error, 1)
			go func() { done <- r.add(t, locked, 2) }()
			apptest.WaitForBlocked(t, db, 1)
			for range 10 {
				if err := r.add(t, other, 1); err != nil {
					t.Errorf("the free pot: %v", err)
				}
			}
			holder.Rollback()
			if err := <-done; err != nil {
				t.Error(err)
			}
			wantTotal(t, db, 12)
		})
	}
}

// TestReleaseWaitsForAnothersTry: a replica that waits for a pot locks its row for a moment. The release waits for
// that, or the pot would stay leased for LOCK_TTL.
func TestReleaseWaitsForAnothersTry(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	group := []pot.Change{gold(mustCreate(t, r, "pot", 10), 1)}
	l := r.mustTake(t, group...)
	other := apptest.Hold(t, db, `SELECT FROM pyggpot.pot FOR UPDATE`)
	done := make(chan bool)
	go func() {
		r.release(context.WithoutCancel(t.Context()), l, group)
		close(done)
	}()
	apptest.WaitForBlocked(t, db, 1)
	other.Rollback()
	<-done
	wantTotal(t, db, 0)
}
