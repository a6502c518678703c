package groupcommit_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// A locked row delays the callers of its key alone. They are answered when it comes free, and one replica uses one
// connection for all that are locked.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	const callers = 10
	r := start(t)
	first, second := r.hold(t, "key-0"), r.hold(t, "key-1")
	ofFirst := r.doAll(t.Context(), callers, request{key: "key-0"})
	ofSecond := r.doAll(t.Context(), callers, request{key: "key-1"})
	r.wantLanes(t, 2)

	for range 50 { // they end while the others are locked
		if err := r.do(t.Context(), "key-2"); err != nil {
			t.Fatal(err)
		}
	}
	second.Rollback() // although the lanes wait for the other one, too
	want(t, ofSecond, callers, nil)
	first.Rollback()
	want(t, ofFirst, callers, nil)

	r.wantValue(t, "key-0", callers)
	r.wantValue(t, "key-1", callers)
	if n, _ := r.seen.Waits(t, contention.InLane); n != 2*callers {
		t.Errorf("%g waits in lanes were recorded", n)
	}
	r.wantLanes(t, 0)
}

// A row that stays locked costs its callers LockTimeout, and surely nothing is applied. The next ones know.
func TestLockedOut(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *config) { c.LockTimeout = time.Second })
	hold := r.hold(t, "key-0")
	want(t, r.doAll(t.Context(), 5, request{key: "key-0"}), 5, groupcommit.ErrLocked)
	if n := r.metric(t, "rowlock_coalesce_locked_out_total"); n != 5 {
		t.Errorf("%g were counted", n)
	}

	ctx, leave := context.WithCancel(t.Context())
	left := r.doAll(ctx, 1, request{key: "key-0"})
	r.wantLanes(t, 1)
	leave()
	want(t, left, 1, context.Canceled)
	hold.Rollback()
	if n, err := r.Do(t.Context(), request{key: "key-0"}); err != nil || n > 2 {
		t.Errorf("the row is free: %d, %v", n, err)
	}
}

// As many callers of locked rows wait as there are places; the others are refused at once.
func TestShare(t *testing.T) {
	t.Parallel()
	const callers, places = 20, 4
	share := contention.NewShare(6*places, nil)
	r := start(t, func(c *config) { c.Share = share })
	hold := r.hold(t, "key-0")
	answers := r.doAll(t.Context(), callers, request{key: "key-0"})

	want(t, answers, callers-places, contention.ErrCrowded)
	hold.Rollback()
	want(t, answers, places, nil)
	r.wantValue(t, "key-0", places)
	free := 0
	for share.Take(free) {
		free++
	}
	if free != 3*places {
		t.Errorf("%d permits are free, want %d", free, 3*places)
	}
}

// A row that another session is inserting is neither missing nor skipped: its callers wait in a lane, the others do
// not.
func TestUncommittedInsert(t *testing.T) {
	t.Parallel()
	r := start(t)
	inserting := apptest.Hold(t, r.direct, `INSERT INTO rig.counters VALUES ('new', 40)`)
	ofNew := r.doAll(t.Context(), 3, request{key: "new", make: true})
	want(t, r.doAll(t.Context(), 30, request{key: "key-0", make: true}), 30, nil)

	inserting.Commit()
	want(t, ofNew, 3, nil)
	r.wantValue(t, "new", 43)
}

// Once one row of a place has been found that another session is inserting, no request for another place waits in a
// statement with requests for further ones, however many of them come.
func TestUncommittedInsertsOfAPlace(t *testing.T) {
	t.Parallel()
	const inserted = 100
	other := func(q request) bool { return q.key[0] == 'o' }
	var heldUp atomic.Int64
	r := start(t, func(c *config) {
		c.Place = func(q request) string { return q.key[:1] }
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			err := add(ctx, s, a, group)
			if err != nil && slices.ContainsFunc(group, other) {
				heldUp.Add(1)
			}
			return err
		}
	})
	const insert = `INSERT INTO rig.counters SELECT 'new-' || i, 0 FROM generate_series(1, $1) AS i`
	inserting := apptest.Hold(t, r.direct, insert, inserted)
	first := r.doAll(t.Context(), 1, request{key: "new-1", make: true})
	r.wantLanes(t, 1)

	ofNew := make([]<-chan error, inserted-1)
	for i := range ofNew {
		ofNew[i] = r.doAll(t.Context(), 1, request{key: fmt.Sprintf("new-%d", i+2), make: true})
		want(t, r.doAll(t.Context(), 1, request{key: fmt.Sprintf("other-%d", i), make: true}), 1, nil)
	}
	if n := heldUp.Load(); n != 0 {
		t.Errorf("%d statements for other places waited for a lock", n)
	}
	inserting.Commit()
	want(t, first, 1, nil)
	for _, answer := range ofNew {
		want(t, answer, 1, nil)
	}
}

// A key that is held by no lock is asked for again, with pauses, until its holder's end is told: then its callers are
// answered at once.
func TestHeldKeys(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	var sends atomic.Int64
	held.Store(true)
	r := start(t, func(c *config) {
		c.LockTimeout, c.Held = time.Second, true
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			sends.Add(1)
			if held.Load() {
				return a.Store(ctx, s, make([]*int64, len(group)))
			}
			return a.Store(ctx, s, make([]int64, len(group)))
		}
	})
	want(t, r.doAll(t.Context(), 3, request{key: "key-0"}), 3, groupcommit.ErrLocked)
	if n := sends.Load(); n > 20 {
		t.Errorf("a second of waiting took %d groups", n)
	}
	if n := r.seen.Conflicts(t, contention.QueueTimeout); n != 3 || r.metric(t, "rowlock_coalesce_locked_out_total") != 0 {
		t.Errorf("%g gave up the wait for another request", n)
	}

	answers := r.doAll(t.Context(), 3, request{key: "key-0"})
	r.wantLanes(t, 1)
	held.Store(false)
	r.Freed("key-0")
	want(t, answers, 3, nil)
	if n, _ := r.seen.Waits(t, contention.InProcess); n < 4 { // of the last two some may come when the key is free
		t.Errorf("%g waits were recorded", n)
	}
}
