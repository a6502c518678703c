package groupcommit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/waittest"
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
	share := contention.NewShare(4*places, nil)
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
	if n := r.value(t, "key-0"); n != places || share.Free() != 2*places {
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
