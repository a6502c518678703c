package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
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
	for range 2 {
		go func() { done <- r.Change(ctx, id, addGold(1)) }()
	}
	waittest.Eventually(t, "tries found the pot leased", func() bool { return r.seen.Conflicts(t, contention.Held) == 2 })
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, pot.ErrTimeOver) {
			t.Error(err)
		}
	}
}

// TestWaitsShareATimer: a queue has one timer for all its pauses, which is stopped when its last caller leaves.
func TestWaitsShareATimer(t *testing.T) {
	t.Parallel()
	q := &queue{empty: make(chan struct{}, 1)}
	timer := pause(q, nil, time.Millisecond)
	q.empty <- struct{}{}
	if again := pause(q, timer, time.Hour); again != timer || timer.Stop() {
		t.Errorf("the same timer: %t, or it still runs", again == timer)
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
	if n := r.seen.Conflicts(t, contention.Lost); n != retries+1 || waits != 1 {
		t.Errorf("%g leases lost, %g waits for a lease", n, waits)
	}
	wantTotal(t, db, 0)
}

// mustLease leases the pot for callers with these changes, as a group does, and returns their queue.
func (r replica) mustLease(t *testing.T, id pot.ID, changes ...func(pot.Pot) (pot.Contents, error)) *queue {
	t.Helper()
	q := &queue{id: id, asked: time.Now()}
	for _, change := range changes {
		q.waiting = append(q.waiting, &call{change: change, done: make(chan error, 1)})
	}
	answers := make([]answer, 1)
	err := r.acquire(t.Context(), coalesce.Pass{SkipLocked: true}, []*queue{q}, answers)
	if err = errors.Join(err, answers[0].Err); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestFenceRefusesAStaleHolder: a holder whose lease has expired, was taken over or was released changes nothing, and
// the other pots of its group are changed.
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
			stale := r.mustLease(t, id, addGold(1))
			apptest.Execute(t, db, meanwhile.statement)
			if n := meanwhile.takeOver; n > 0 {
				if err := openStore(t, dsn, sqldb.PoolerNone).Change(t.Context(), id, addGold(n)); err != nil {
					t.Fatal(err)
				}
			}
			other, err := r.Create(t.Context(), "other", 10)
			if err != nil {
				t.Fatal(err)
			}
			results, err := r.change(t.Context(), coalesce.Pass{Wait: time.Second},
				[]*queue{stale, r.mustLease(t, other.ID, addGold(5))})
			if err != nil || !errors.Is(results[0], errLost) || results[1] != nil {
				t.Errorf("%v (%v)", results, err)
			}
			apptest.Execute(t, db, release)
			wantTotal(t, db, 5+meanwhile.takeOver)
		})
	}
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
		{"change, answer lost", faultproxy.AfterStatement, "fenced", true},
		{"change, statement lost", faultproxy.BeforeStatement, "fenced", false},
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

// TestALostReadChangesNothing: the answer to the read of a pot that was waited for is lost.
func TestALostReadChangesNothing(t *testing.T) {
	t.Parallel()
	direct, db, dsn := open(t)
	id := mustCreate(t, direct, 10)
	proxy := faultproxy.New(t, dsn)
	r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
	q := direct.mustLease(t, id, addGold(1))
	q.before.Contents = nil
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("denominations"))
	answers, err := r.runContended(t.Context(), coalesce.Pass{Wait: time.Second}, []*queue{q})
	outcome, known := sqldb.OutcomeOf(errors.Join(err, answers[0].Err))
	if !known || outcome != sqldb.NotApplied || proxy.Cuts() != 1 {
		t.Errorf("%v %v, %d cuts", answers, err, proxy.Cuts())
	}
	wantTotal(t, db, 0)
}

// TestReleaseWaitsForAnothersTry: a replica that tries to lease a pot locks its row for a moment. The release waits for
// that, or the pot would stay leased for LOCK_TTL.
func TestReleaseWaitsForAnothersTry(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t, func(o *Options) { o.RetryWait = time.Hour })
	q := r.mustLease(t, mustCreate(t, r, 10))
	other := apptest.Hold(t, db, `SELECT FROM pyggpot.pot FOR UPDATE`)
	done := make(chan bool)
	go func() {
		r.release(context.WithoutCancel(t.Context()), q)
		close(done)
	}()
	apptest.WaitForBlocked(t, db, 1)
	other.Rollback()
	<-done
	wantTotal(t, db, 0)
}

// TestALockedRowKeepsNoOtherLease: a pot whose row stays locked keeps its lease, its neighbours lose theirs.
func TestALockedRowKeepsNoOtherLease(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	locked, free := r.mustLease(t, mustCreate(t, r, 10)), r.mustLease(t, r.mustCreate(t, "free", 10))
	holder := apptest.Hold(t, db, `SELECT FROM pyggpot.pot WHERE id = $1 FOR UPDATE`, int32(locked.id))
	r.release(t.Context(), locked, free)
	holder.Rollback()
	var leased []int32
	err := db.SelectContext(t.Context(), &leased, `SELECT id FROM pyggpot.pot WHERE lock IS NOT NULL`)
	if err != nil || !slices.Equal(leased, []int32{int32(locked.id)}) {
		t.Errorf("leased: %v (%v), want only %d", leased, err, locked.id)
	}
}

// TestResolve: a lease that is gone before its time says that the change is committed, one that the pot still has that
// it is not, and one that is gone and whose time is over nothing. Each pot of a group has its own answer.
func TestResolve(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	other, err := r.Create(t.Context(), "other", 10)
	if err != nil {
		t.Fatal(err)
	}
	lost := &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Connection}
	released := `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL WHERE pot_name = 'pot'`
	both := []*queue{r.mustLease(t, id), r.mustLease(t, other.ID)}
	apptest.Execute(t, db, released)
	results := r.resolve(t.Context(), both, lost)
	if results[0] != nil || results[1] == nil || unknown(results[1]) {
		t.Errorf("released in time, and still held: %v", results)
	}
	late := r.mustLease(t, id)
	late.lease.expires = late.lease.expires.Add(-time.Hour)
	apptest.Execute(t, db, released)
	if results := r.resolve(t.Context(), []*queue{late}, lost); !unknown(results[0]) {
		t.Errorf("released, at an unknown time: %v", results)
	}
	expired := r.mustLease(t, id)
	apptest.Execute(t, db, expire)
	if results := r.resolve(t.Context(), []*queue{expired}, lost); results[0] == nil || unknown(results[0]) {
		t.Errorf("still held, but expired: %v", results)
	}
	wantTotal(t, db, 0)
}

// TestAChangeThatResolveDeniesIsNotMadeLater: the server may begin a change only after its connection was lost and
// resolve has found its lease, which the change has no longer then, be it released yet or not.
func TestAChangeThatResolveDeniesIsNotMadeLater(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	q := r.mustLease(t, id, addGold(1))
	late := *q
	apptest.Execute(t, db, `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
		`CREATE TRIGGER keep BEFORE UPDATE ON pyggpot.pot FOR EACH ROW WHEN (NEW.lock IS NULL) EXECUTE FUNCTION keep()`)
	denied := r.resolve(t.Context(), []*queue{q}, &sqldb.Error{Outcome: sqldb.Unknown})
	if denied[0] == nil || unknown(denied[0]) {
		t.Errorf("got %v, want that nothing was applied", denied)
	}
	apptest.Execute(t, db, `DROP TRIGGER keep ON pyggpot.pot`)
	results, err := r.change(t.Context(), coalesce.Pass{Wait: time.Second}, []*queue{&late})
	if err != nil || !errors.Is(results[0], errLost) {
		t.Errorf("the late change: %v (%v)", results, err)
	}
}

// TestResolveIsAskedAgain: the answer to resolve's own statement is lost, which has found the lease.
func TestResolveIsAskedAgain(t *testing.T) {
	t.Parallel()
	direct, db, dsn := open(t)
	id := mustCreate(t, direct, 10)
	proxy := faultproxy.New(t, dsn)
	r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
	q := r.mustLease(t, id)
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("revoked"))
	results := r.resolve(t.Context(), []*queue{q}, &sqldb.Error{Outcome: sqldb.Unknown})
	if results[0] == nil || unknown(results[0]) || proxy.Cuts() != 1 {
		t.Errorf("got %v after %d cuts, want that nothing was applied", results, proxy.Cuts())
	}
	wantTotal(t, db, 0)
}
