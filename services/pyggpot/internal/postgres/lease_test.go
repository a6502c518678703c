package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

const (
	leasedForever = `UPDATE pyggpot.pot
		SET lock = gen_random_uuid(), lock_expire_time = clock_timestamp() + interval '1 hour'`
	expire = `UPDATE pyggpot.pot SET lock_expire_time = clock_timestamp() WHERE lock IS NOT NULL`
)

// TestRetries: while a pot stays leased, a change tries Retries times more.
func TestRetries(t *testing.T) {
	t.Parallel()
	const retries = 7
	r, db, _ := open(t, func(o *Options) { o.Retries, o.RetryWait = retries, time.Millisecond })
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, leasedForever)
	if err := r.Change(t.Context(), id, addGold(1)); !errors.Is(err, pot.ErrLocked) {
		t.Error(err)
	}
	waits, _ := r.seen.Waits(t, contention.InDatabase)
	if held := r.seen.Conflicts(t, contention.Held); held != retries+1 || waits != 1 {
		t.Errorf("%g times held, %g waits", held, waits)
	}
	apptest.Execute(t, db, expire)
	for range 2 { // the expired lease is taken over, the released one is not
		if err := r.Change(t.Context(), id, addGold(1)); err != nil {
			t.Error(err)
		}
	}
	if n := r.seen.Conflicts(t, contention.TakenOver); n != 1 {
		t.Errorf("%g leases were taken over, want 1", n)
	}
	wantTotal(t, db, 2)
}

// TestWaitingEndsWithTheRequest: a caller whose context ends stops to wait. TestMain looks for goroutines.
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

// TestWaitsShareATimer: a change has one timer for all its waits, which is stopped when its request ends.
func TestWaitsShareATimer(t *testing.T) {
	t.Parallel()
	var r retryTimer
	if err := r.wait(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	first := r.timer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.wait(ctx, time.Hour); !errors.Is(err, context.Canceled) || r.timer != first || r.timer.Stop() {
		t.Errorf("%v, the same timer: %t, or it still runs", err, r.timer == first)
	}
}

// TestLostLeasesAreCounted: the fence refuses every try whose lease has expired before it.
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
	wantTotal(t, db, 0)
}

// changeUnder runs only the transaction of a change, as the holder of a lease does.
func (r replica) changeUnder(ctx context.Context, l lease, change func(pot.Pot) (pot.Contents, error)) error {
	return r.db.InTx(ctx, (&transaction{lease: l, change: change}).run)
}

// TestFenceRefusesAStaleHolder: a holder whose lease has expired, was taken over or was released changes nothing.
func TestFenceRefusesAStaleHolder(t *testing.T) {
	t.Parallel()
	const release = `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL`
	for name, meanwhile := range map[string]struct {
		statement string
		takeOver  int64 // coins that another holder adds
	}{
		"expired": {expire, 0}, "taken over": {expire, 3}, "released": {release, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, dsn := open(t)
			id := mustCreate(t, r, 10)
			stale, err := r.acquire(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			apptest.Execute(t, db, meanwhile.statement)
			if n := meanwhile.takeOver; n > 0 {
				if err := openStore(t, dsn, sqldb.PoolerNone).Change(t.Context(), id, addGold(n)); err != nil {
					t.Fatal(err)
				}
			}
			called := false
			err = r.changeUnder(t.Context(), stale, func(p pot.Pot) (pot.Contents, error) {
				called = true
				return p.Contents, nil
			})
			if !errors.Is(err, errLost) || called {
				t.Errorf("%v, called %t", err, called)
			}
			var coins int64
			err = db.GetContext(t.Context(), &coins, `SELECT coins FROM pyggpot.pot`)
			if err != nil || coins != meanwhile.takeOver {
				t.Errorf("%d coins (%v)", coins, err)
			}
		})
	}
}

// TestFenceIsHeldToCommit: no holder can take a lease that expires within the transaction before the change is
// committed.
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
			err := db.GetContext(t.Context(), &expired, `SELECT lock_expire_time <= clock_timestamp() FROM pyggpot.pot`)
			return err == nil && expired
		})
		go func() { taken <- taker.Change(t.Context(), id, addGold(2)) }()
		apptest.WaitForBlocked(t, db, 1)
		return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
	wantTotal(t, db, 3)
}

// TestStalledHolderIsEnded: the server ends the transaction of a stalled holder when its lease expires. Other holders
// go on, and its change is not stored.
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
	wantTotal(t, db, 2)
}

// TestLostReplies: an answer or a statement is lost at any step. The change is made once or not at all, and the caller
// learns which.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		when    faultproxy.When
		text    string
		applied bool
	}{
		{"acquisition, answer lost", faultproxy.AfterStatement, "expires", true},
		{"acquisition, statement lost", faultproxy.BeforeStatement, "expires", true},
		{"fence", faultproxy.AfterStatement, "for update of p", false},
		{"change", faultproxy.AfterStatement, "unnest", false},
		{"COMMIT, answer lost", faultproxy.AfterCommit, "", true},
		{"COMMIT, statement lost", faultproxy.BeforeCommit, "", false},
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
				wantTotal(t, db, want)
				if err := r.Change(t.Context(), id, addGold(1)); err != nil {
					t.Errorf("the pot is not free: %v", err)
				}
			})
		}
	}
}

// TestResolve: a lease that is gone before its time says that the change is committed, one that the pot still has that
// it is not, and one that is gone and whose time is over nothing.
func TestResolve(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	l, err := r.acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}
	apptest.Execute(t, db, `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL`)
	if err := r.resolve(t.Context(), l, lost); err != nil {
		t.Errorf("released in time: %v", err)
	}
	l.expires = l.expires.Add(-time.Hour)
	if err := r.resolve(t.Context(), l, lost); !unknown(err) {
		t.Errorf("released, at an unknown time: %v", err)
	}
	l, err = r.acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, db, expire)
	if err := r.resolve(t.Context(), l, lost); err == nil || unknown(err) {
		t.Errorf("still held, but expired: %v", err)
	}
	wantTotal(t, db, 0)
}

// TestSlots: more changes at once than Options.Changes are refused with ErrBusy.
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
		// The second pot had no slot, which is no conflict.
		if n := r.seen.Conflicts(t, contention.QueueTimeout); n != 1 {
			t.Errorf("%g changes gave up in the queue, want 1", n)
		}
		return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
	}); err != nil {
		t.Error(err)
	}
	wantTotal(t, db, 1)
}
