package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

const (
	leasedForever = `UPDATE pyggpot.pot SET lock = gen_random_uuid(), lock_expire_time = clock_timestamp() + interval '1 hour'`
	expire        = `UPDATE pyggpot.pot SET lock_expire_time = clock_timestamp()`
)

// A pot that stays leased: so many tries, one timer for all of them, no goroutine
// left, and nothing changed.
func TestRetries(t *testing.T) {
	t.Parallel()
	const retries = 7
	r, db, _ := open(t, func(o *Options) { o.Retries, o.RetryWait = retries, time.Millisecond })
	var timers atomic.Int64
	r.newTimer = func(d time.Duration) *time.Timer { timers.Add(1); return time.NewTimer(d) }
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, leasedForever)
	err := r.Change(t.Context(), id, addGold(1))
	if !errors.Is(err, pot.ErrLocked) || timers.Load() != 1 {
		t.Errorf("%v with %d timers", err, timers.Load())
	}
	waits, _ := r.seen.Waits(t, contention.InDatabase)
	if held := r.seen.Conflicts(t, contention.Held); held != retries+1 || waits != 1 {
		t.Errorf("%g times held, %g waits", held, waits)
	}
	apptest.Execute(t, db, expire)
	if err := r.Change(t.Context(), id, addGold(1)); err != nil || timers.Load() != 1 {
		t.Errorf("%v with %d timers", err, timers.Load())
	}
	wantBooks(t, db, 1)
}

// Whoever leaves while waiting is let go at once; TestMain looks for goroutines.
func TestWaitingEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t, func(o *Options) { o.RetryWait = time.Hour })
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, leasedForever)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 { // one waits for the lease, one in the queue behind it
		go func() { done <- r.Change(ctx, id, addGold(1)) }()
	}
	waittest.Eventually(t, "a try found the pot leased", func() bool { return r.seen.Conflicts(t, contention.Held) == 1 })
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, pot.ErrTimeOver) {
			t.Error(err)
		}
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, leasedForever, expire)
	if err := r.Change(t.Context(), id, addGold(1)); err != nil || r.seen.Conflicts(t, contention.TakenOver) != 1 {
		t.Errorf("%v, %g take-overs", err, r.seen.Conflicts(t, contention.TakenOver))
	}
	if err := r.Change(t.Context(), id, addGold(1)); err != nil || r.seen.Conflicts(t, contention.TakenOver) != 1 {
		t.Errorf("a free pot was taken over: %v, %g", err, r.seen.Conflicts(t, contention.TakenOver))
	}
	wantBooks(t, db, 2)
}

// A lease that does not outlive the way to the fence: each try is refused there.
func TestLostLeasesAreCounted(t *testing.T) {
	t.Parallel()
	const retries = 4
	r, db, _ := open(t, func(o *Options) { o.Retries, o.RetryWait = retries, time.Millisecond })
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, `CREATE FUNCTION stale() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.lock_expire_time := clock_timestamp(); RETURN NEW; END $$`,
		`CREATE TRIGGER stale BEFORE UPDATE ON pyggpot.pot FOR EACH ROW WHEN (NEW.lock IS NOT NULL) EXECUTE FUNCTION stale()`)
	if err := r.Change(t.Context(), id, addGold(1)); !errors.Is(err, pot.ErrLocked) {
		t.Error(err)
	}
	waits, _ := r.seen.Waits(t, contention.InDatabase)
	queued, _ := r.seen.Waits(t, contention.InProcess)
	if n := r.seen.Conflicts(t, contention.Lost); n != retries+1 || waits != 1 || queued != 1 {
		t.Errorf("%g leases lost, %g waits for a lease, %g in the queue", n, waits, queued)
	}
	wantBooks(t, db, 0)
}

// change is what a holder of a lease does: the transaction alone.
func (r replica) changeUnder(ctx context.Context, l lease, change func(pot.Pot) (pot.Contents, error)) error {
	return r.db.InTx(ctx, (&transaction{lease: l, change: change}).run)
}

// A lease that has expired, was taken over, or was given back changes nothing.
func TestFenceRefusesAStaleHolder(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, r replica, db *sqlx.DB, id pot.ID){
		"expired": func(t *testing.T, _ replica, db *sqlx.DB, _ pot.ID) { t.Helper(); apptest.Execute(t, db, expire) },
		"taken over": func(t *testing.T, r replica, db *sqlx.DB, id pot.ID) {
			t.Helper()
			apptest.Execute(t, db, expire)
			if err := r.Change(t.Context(), id, addGold(3)); err != nil {
				t.Fatal(err)
			}
		},
		"given back": func(t *testing.T, _ replica, db *sqlx.DB, _ pot.ID) {
			t.Helper()
			apptest.Execute(t, db, `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, dsn := open(t)
			id := mustCreate(t, r, 10)
			stale, err := r.acquire(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			meanwhile(t, openStore(t, dsn, sqldb.PoolerNone), db, id)
			called := false
			err = r.changeUnder(t.Context(), stale, func(p pot.Pot) (pot.Contents, error) { called = true; return p.Contents, nil })
			if !errors.Is(err, errLost) || called {
				t.Errorf("%v, called %t", err, called)
			}
			var coins int64
			want := map[string]int64{"taken over": 3}[name]
			if err := db.GetContext(t.Context(), &coins, `SELECT coins FROM pyggpot.pot`); err != nil || coins != want {
				t.Errorf("%d coins (%v)", coins, err)
			}
		})
	}
}

// The fence holds the pot to COMMIT: a lease that expires within the transaction
// can be taken by nobody before the change is there.
func TestFenceIsHeldToCommit(t *testing.T) {
	t.Parallel()
	r, db, dsn := open(t, func(o *Options) { o.TTL = 200 * time.Millisecond })
	taker := openStore(t, dsn, sqldb.PoolerNone)
	id := mustCreate(t, r, 10)
	l, err := r.acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	// Without the timeout that would end it, see TestStalledHolderIsEnded.
	err = r.changeUnder(t.Context(), l, func(p pot.Pot) (pot.Contents, error) {
		waittest.Eventually(t, "the lease has expired", func() bool {
			var expired bool
			return db.GetContext(t.Context(), &expired, `SELECT lock_expire_time <= clock_timestamp() FROM pyggpot.pot`) == nil && expired
		})
		go func() { taken <- taker.Change(t.Context(), id, addGold(2)) }()
		waittest.Eventually(t, "the taker waits for the row", func() bool {
			var blocked int
			return db.GetContext(t.Context(), &blocked, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`) == nil && blocked == 1
		})
		return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
	wantBooks(t, db, 3)
}

// A holder that stalls inside its transaction is ended by the server when its
// lease is: others go on, and its change is not there.
func TestStalledHolderIsEnded(t *testing.T) {
	t.Parallel()
	r, db, dsn := open(t, func(o *Options) { o.TTL = 300 * time.Millisecond })
	other := openStore(t, dsn, sqldb.PoolerNone)
	id := mustCreate(t, r, 10)
	var once atomic.Bool
	err := r.Change(t.Context(), id, func(p pot.Pot) (pot.Contents, error) {
		if !once.Swap(true) {
			if err := other.Change(t.Context(), id, addGold(2)); err != nil {
				t.Errorf("another replica: %v", err)
			}
		}
		return p.Contents.Plus(pot.Contents{pot.Gold: 5}), nil
	})
	if outcome, known := sqldb.OutcomeOf(err); !known || outcome != sqldb.NotApplied {
		t.Errorf("the stalled holder got %v", err)
	}
	if n := other.seen.Conflicts(t, contention.TakenOver); n != 1 {
		t.Errorf("%g take-overs", n)
	}
	wantBooks(t, db, 2)
}

// A lost answer, or a lost question, at any step: the change is made once or not at
// all, and it is known which.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		when    faultproxy.When
		text    string
		applied bool
	}{
		{"acquisition, answered in vain", faultproxy.AfterStatement, "expires", true},
		{"acquisition, never arrived", faultproxy.BeforeStatement, "expires", true},
		{"fence", faultproxy.AfterStatement, "for update of p", false},
		{"change", faultproxy.AfterStatement, "unnest", false},
		{"COMMIT, answered in vain", faultproxy.AfterCommit, "", true},
		{"COMMIT, never arrived", faultproxy.BeforeCommit, "", false},
	} {
		for how, end := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				direct, db, dsn := open(t)
				id := mustCreate(t, direct, 1000)
				proxy := faultproxy.New(t, dsn)
				r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
				for range 3 {
					proxy.Cut(tt.when, end, faultproxy.Matching(tt.text))
					err := r.Change(t.Context(), id, addGold(1))
					outcome, known := sqldb.OutcomeOf(err)
					if tt.applied && err != nil || !tt.applied && (!known || outcome != sqldb.NotApplied) {
						t.Errorf("%v", err)
					}
				}
				if proxy.Cuts() != 3 {
					t.Errorf("%d cuts", proxy.Cuts())
				}
				want := int64(0)
				if tt.applied {
					want = 3
				}
				wantBooks(t, db, want)
				if err := r.Change(t.Context(), id, addGold(1)); err != nil {
					t.Errorf("the pot is not free: %v", err)
				}
			})
		}
	}
}

// What cannot be known is not claimed: the lease is gone, and its time is over.
func TestSettleAdmitsWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	l, err := r.acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}
	apptest.Execute(t, db, `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL`)
	if err := r.settle(t.Context(), l, lost); err != nil {
		t.Errorf("given back in time: %v", err)
	}
	l.expires = l.expires.Add(-time.Hour)
	if err := r.settle(t.Context(), l, lost); !leftOpen(err) {
		t.Errorf("given back, but when? %v", err)
	}
	l, err = r.acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, db, expire)
	if err := r.settle(t.Context(), l, lost); err == nil || leftOpen(err) {
		t.Errorf("still ours, if expired: %v", err)
	}
	wantBooks(t, db, 0)
}

// Changes take no connection away from reads, and too many of them are told so.
func TestSlots(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t, func(o *Options) { o.Changes, o.QueueWait = 1, 50*time.Millisecond })
	id := mustCreate(t, r, 10)
	second, err := r.Create(t.Context(), "second", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Change(t.Context(), id, func(p pot.Pot) (pot.Contents, error) {
		if err := r.Change(t.Context(), second.ID, addGold(1)); !errors.Is(err, pot.ErrBusy) {
			t.Errorf("a second pot's change: %v", err)
		}
		if err := r.Change(t.Context(), id, addGold(1)); !errors.Is(err, pot.ErrLocked) {
			t.Errorf("a second change of the pot: %v", err)
		}
		if n := r.seen.Conflicts(t, contention.QueueTimeout); n != 1 { // the second pot had no slot, which is no conflict
			t.Errorf("%g changes gave up in the queue, want 1", n)
		}
		return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
	}); err != nil {
		t.Error(err)
	}
	wantBooks(t, db, 1)
}
