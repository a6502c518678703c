package groupcommit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// hold lets another client lock a counter.
func (r *rig) hold(t *testing.T, key string) apptest.Holder {
	t.Helper()
	return apptest.Hold(t, r.direct, `SELECT FROM rig.counters WHERE key = $1 FOR UPDATE`, key)
}

// doAll sends n requests for a key and returns the channel of their errors.
func (r *rig) doAll(t *testing.T, n int, q request) <-chan error {
	t.Helper()
	answers := make(chan error, n)
	for range n {
		go func() { _, err := r.Do(t.Context(), q); answers <- err }()
	}
	return answers
}

// A locked row delays the callers of its key alone. They are answered when it comes free, and one replica uses one
// connection for all that are locked.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	const callers = 10
	dsn := database(t)
	r := start(t, dsn, dsn)
	first, second := r.hold(t, "key-0"), r.hold(t, "key-1")
	ofFirst, ofSecond := r.doAll(t, callers, request{key: "key-0"}), r.doAll(t, callers, request{key: "key-1"})
	waittest.Eventually(t, "two lanes", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == 2 })

	for range 50 { // they end while the others are locked
		if _, err := r.Do(t.Context(), request{key: "key-2"}); err != nil {
			t.Fatal(err)
		}
	}

	second.Rollback() // although the lanes wait for the other one, too
	for range callers {
		if err := <-ofSecond; err != nil {
			t.Error(err)
		}
	}
	first.Rollback()
	for range callers {
		if err := <-ofFirst; err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"key-0", "key-1"} {
		if n := r.value(t, key); n != callers {
			t.Errorf("%s is %d", key, n)
		}
	}
	if n, _ := r.seen.Waits(t, contention.InLane); n != 2*callers {
		t.Errorf("%g waits in lanes were recorded", n)
	}
	if n := r.metric(t, "rowlock_coalesce_slow_keys"); n != 0 {
		t.Errorf("%g lanes are left", n)
	}
}

// A row that stays locked costs its callers LockTimeout, and surely nothing is applied. The next ones know.
func TestLockedOut(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) { c.LockTimeout = time.Second })
	hold := r.hold(t, "key-0")
	answers := r.doAll(t, 5, request{key: "key-0"})
	for range 5 {
		if err := <-answers; !errors.Is(err, groupcommit.ErrLocked) {
			t.Errorf("got %v", err)
		}
	}
	if n := r.metric(t, "rowlock_coalesce_locked_out_total"); n != 5 {
		t.Errorf("%g were counted", n)
	}

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := r.Do(ctx, request{key: "key-0"}); left <- err }()
	waittest.Eventually(t, "it stands in the lane", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == 1 })
	leave()
	if err := <-left; err == nil {
		t.Error("a caller that has left got an answer")
	}
	hold.Rollback()
	if n, err := r.Do(t.Context(), request{key: "key-0"}); err != nil || n > 2 {
		t.Errorf("the row is free: %d, %v", n, err)
	}
}

// As many callers of locked rows wait as there are places; the others are refused at once.
func TestShare(t *testing.T) {
	t.Parallel()
	const callers, places = 20, 4
	dsn := database(t)
	share := contention.NewShare(6*places, nil)
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) { c.Share = share })
	hold := r.hold(t, "key-0")
	answers := r.doAll(t, callers, request{key: "key-0"})
	for range callers - places {
		if err := <-answers; !errors.Is(err, contention.ErrCrowded) {
			t.Errorf("got %v", err)
		}
	}
	hold.Rollback()
	for range places {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if n := r.value(t, "key-0"); n != places || share.Free() != 3*places {
		t.Errorf("the counter is %d, %d places are free", n, share.Free())
	}
}

// A row that another session is inserting is neither missing nor skipped: its callers wait in a lane, the others do
// not.
func TestUncommittedInsert(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	inserting := apptest.Hold(t, r.direct, `INSERT INTO rig.counters VALUES ('new', 40)`)
	ofNew := r.doAll(t, 3, request{key: "new", make: true})
	others := r.doAll(t, 30, request{key: "key-0", make: true})
	for range 30 {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	inserting.Commit()
	for range 3 {
		if err := <-ofNew; err != nil {
			t.Error(err)
		}
	}
	if n := r.value(t, "new"); n != 43 {
		t.Errorf("the new counter is %d", n)
	}
}

// A table that is locked as a whole delays all, and nothing is lost or doubled.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	r := start(t, dsn, dsn)
	hold := apptest.Hold(t, r.direct, `LOCK TABLE rig.counters`)
	answers := make(chan error, 6)
	for _, key := range []string{"key-0", "key-1", "key-2", "key-0", "key-1", "key-2"} {
		go func() { _, err := r.Do(t.Context(), request{key: key}); answers <- err }()
	}
	waittest.Eventually(t, "lanes", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == 3 })
	hold.Rollback()
	for range 6 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"key-0", "key-1", "key-2"} {
		if n := r.value(t, key); n != 2 {
			t.Errorf("%s is %d", key, n)
		}
	}
}

// A key that is held by no lock is asked for again, with pauses, until its holder's end is told: then its callers are
// answered at once.
func TestHeldKeys(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	var held atomic.Bool
	var sends atomic.Int64
	held.Store(true)
	r := start(t, dsn, dsn, func(c *groupcommit.Config[string, request, int64]) {
		c.LockTimeout, c.Held = time.Second, true
		c.Send = func(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
			sends.Add(1)
			answers := make([]*int64, len(group))
			for i := range answers {
				if !held.Load() {
					answers[i] = new(int64)
				}
			}
			return a.Store(ctx, s, answers)
		}
	})
	for err := range drain(r.doAll(t, 3, request{key: "key-0"}), 3) {
		if !errors.Is(err, groupcommit.ErrLocked) {
			t.Errorf("held for longer than LockTimeout: %v", err)
		}
	}
	if n := sends.Load(); n > 20 {
		t.Errorf("a second of waiting took %d groups", n)
	}
	if n := r.seen.Conflicts(t, contention.QueueTimeout); n != 3 || r.metric(t, "rowlock_coalesce_locked_out_total") != 0 {
		t.Errorf("%g gave up the wait for another request", n)
	}

	answers := r.doAll(t, 3, request{key: "key-0"})
	waittest.Eventually(t, "they stand in the lane", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == 1 })
	held.Store(false)
	r.Freed("key-0")
	for err := range drain(answers, 3) {
		if err != nil {
			t.Error(err)
		}
	}
	if n, _ := r.seen.Waits(t, contention.InProcess); n < 4 { // of the last two some may come when the key is free
		t.Errorf("%g waits were recorded", n)
	}
}

// drain yields n errors of a channel.
func drain(errs <-chan error, n int) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		for range n {
			if !yield(<-errs) {
				return
			}
		}
	}
}
