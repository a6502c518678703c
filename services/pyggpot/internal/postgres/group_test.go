package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// step is one caller's change of a pot.
type step struct {
	id     pot.ID
	change func(pot.Pot) (pot.Contents, error)
}

// together makes the changes in one group, which forms while another one runs, and returns their answers. It calls
// before when all wait.
func (r replica) together(t *testing.T, before func(), steps ...step) []error {
	t.Helper()
	first, err := r.Create(t.Context(), "first", 10)
	if err != nil {
		t.Fatal(err)
	}
	begun, release := make(chan struct{}), make(chan struct{})
	answers := make([]chan error, len(steps)+1)
	for i := range answers {
		answers[i] = make(chan error, 1)
	}
	go func() {
		answers[len(steps)] <- r.Change(t.Context(), first.ID, func(p pot.Pot) (pot.Contents, error) {
			close(begun)
			<-release
			return p.Contents, nil
		})
	}()
	<-begun
	for i, s := range steps {
		go func() { answers[i] <- r.Change(t.Context(), s.id, s.change) }()
		waittest.Eventually(t, "the change waits", func() bool { return r.waiting() == i+1 })
	}
	before()
	close(release)
	errs := make([]error, len(steps))
	for i := range errs {
		errs[i] = <-answers[i]
	}
	if err := <-answers[len(steps)]; err != nil {
		t.Errorf("the first group: %v", err)
	}
	return errs
}

// waiting returns how many changes wait to be sent.
func (r replica) waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queues {
		n += len(q.waiting)
	}
	return n
}

func (r replica) mustCreate(t *testing.T, name string, maxCoins int32) pot.ID {
	t.Helper()
	p, err := r.Create(t.Context(), name, maxCoins)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// TestCallersOfAPotShareALease: changes that wait for one pot follow one another under one lease, each with its own
// answer. One that is refused leaves its neighbours.
func TestCallersOfAPotShareALease(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, `CREATE TABLE leases (pot integer)`, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO leases VALUES (NEW.id); RETURN NEW; END $$`, `CREATE TRIGGER note BEFORE UPDATE ON pyggpot.pot
		FOR EACH ROW WHEN (NEW.lock IS NOT NULL) EXECUTE FUNCTION note()`)
	var saw [4]int64
	add := func(i int, n int64) step {
		return step{id, func(p pot.Pot) (pot.Contents, error) {
			if saw[i] = p.Contents.Total(); saw[i]+n > int64(p.MaxCoins) {
				return nil, pot.ErrFull
			}
			return p.Contents.Plus(pot.Contents{pot.Gold: n}), nil
		}}
	}
	errs := r.together(t, func() {}, add(0, 4), add(1, 7), add(2, 5), add(3, 1))
	want := [...]error{nil, pot.ErrFull, nil, nil}
	if !slices.Equal(errs, want[:]) || saw != [...]int64{0, 4, 4, 9} {
		t.Errorf("got %v, want %v; they saw %v", errs, want, saw)
	}
	wantTotal(t, db, 10)
	var leases int
	if err := db.GetContext(t.Context(), &leases, `SELECT count(*) FROM leases WHERE pot = $1`, int32(id)); err != nil ||
		leases != 1 {
		t.Errorf("%d leases (%v), want 1", leases, err)
	}
}

// TestABadPotFailsAlone: of a group of pots, one that would violate a constraint or is not there fails alone.
func TestABadPotFailsAlone(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t)
	var steps []step
	for i := range 7 {
		steps = append(steps, step{r.mustCreate(t, "pot-"+strconv.Itoa(i), 10), addGold(int64(i))})
	}
	const bad, missing = 2, 4
	steps[bad].change, steps[missing].id = addGold(11), 1000
	for i, err := range r.together(t, func() {}, steps...) {
		outcome, known := sqldb.OutcomeOf(err)
		switch {
		case i == bad && (!known || outcome != sqldb.NotApplied), i == missing && !errors.Is(err, pot.ErrNotFound),
			i != bad && i != missing && err != nil:
			t.Errorf("pot %d: %v", i, err)
		}
	}
	wantTotal(t, db, 0+1+3+5+6)
}

// TestAFailureIsOfThoseWhoHadCome: a caller that comes while a try fails has a try of its own: the pot may have been
// created meanwhile.
func TestAFailureIsOfThoseWhoHadCome(t *testing.T) {
	t.Parallel()
	r, _, _ := open(t)
	early, late := &call{done: make(chan error, 1)}, &call{done: make(chan error, 1)}
	q := &queue{id: 1, waiting: []*call{early}}
	r.queues[q.id] = q
	r.beginTry(q)
	if _, err := r.enter(q.id, late); err != nil {
		t.Fatal(err)
	}
	_, left := r.endTry(q, pot.ErrNotFound)
	if err := <-early.done; left != 1 || len(late.done) != 0 || !errors.Is(err, pot.ErrNotFound) {
		t.Errorf("%d callers are left, want the one that came late (%v)", left, err)
	}
}

// TestALockedRowDelaysItsOwnCallers: a pot whose row another session locks delays its callers alone, be it locked
// before the pot is leased, or between its lease and its change, whose lease it keeps.
func TestALockedRowDelaysItsOwnCallers(t *testing.T) {
	t.Parallel()
	for name, leased := range map[string]bool{"before the lease": false, "under the lease": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db, _ := open(t)
			locked, free := mustCreate(t, r, 100), r.mustCreate(t, "free", 100)
			const lock = `SELECT FROM pyggpot.pot WHERE id = $1 FOR UPDATE`
			holder := make(chan apptest.Holder, 1)
			steps := []step{{locked, addGold(1)}, {free, func(p pot.Pot) (pot.Contents, error) {
				if len(holder) == 0 { // the group's pots are leased, and it may be run again
					holder <- apptest.Hold(t, db, lock, int32(locked))
				}
				return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
			}}}
			if !leased {
				holder <- apptest.Hold(t, db, lock, int32(locked))
				steps[1].change = addGold(1)
			}
			done := make(chan []error, 1)
			go func() { done <- r.together(t, func() {}, steps...) }()
			waittest.Eventually(t, "the free pot is changed", func() bool {
				p, err := r.Find(t.Context(), free)
				return err == nil && p.Contents[pot.Gold] == 1
			})
			for range 10 {
				if err := r.Change(t.Context(), free, addGold(1)); err != nil {
					t.Errorf("the free pot: %v", err)
				}
			}
			(<-holder).Rollback()
			if errs := <-done; errors.Join(errs...) != nil {
				t.Error(errs)
			}
			if n := r.seen.Conflicts(t, contention.Held); n == 0 {
				t.Error("the locked pot was not found held")
			}
			wantTotal(t, db, 12)
		})
	}
}

// fill puts 4 gold coins into each pot and releases it, as the last statement of a holder does.
const fill = `
	WITH kinds AS (INSERT INTO pyggpot.coin (pot_id, denomination, coin_count) SELECT id, 100, 4 FROM pyggpot.pot)
	UPDATE pyggpot.pot SET coins = 4, lock = NULL, lock_expire_time = NULL`

// TestAPotIsHadWhenItsHolderIsDone: a change of a pot whose holder is writing waits for that at the pot's row, and not
// RetryWait. It sees what the holder wrote.
func TestAPotIsHadWhenItsHolderIsDone(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t, func(o *Options) { o.RetryWait = time.Hour })
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, leasedForever)
	holder := apptest.Hold(t, db, fill)
	done := make(chan error, 1)
	go func() { done <- r.Change(context.WithoutCancel(t.Context()), id, addGold(1)) }()
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantTotal(t, db, 5)
}

// TestCoinsAreOfTheLeasedVersion: another holder's change is committed between the snapshot of a group's lease and its
// lock of the pot's row. The group must not take the coins of its snapshot for the pot's.
func TestCoinsAreOfTheLeasedVersion(t *testing.T) {
	t.Parallel()
	r, db, _ := open(t, func(o *Options) { o.RetryWait = time.Hour })
	id := mustCreate(t, r, 10)
	apptest.Execute(t, db, `CREATE FUNCTION queue() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$`,
		`CREATE TRIGGER queue BEFORE UPDATE ON pyggpot.pot FOR EACH STATEMENT EXECUTE FUNCTION queue()`)
	holder := apptest.Hold(t, db, fill)
	done := make(chan error, 1)
	go func() { done <- r.Change(context.WithoutCancel(t.Context()), id, addGold(1)) }()
	apptest.WaitForBlocked(t, db, 1) // after its snapshot, before it locks a row
	holder.Commit()
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantTotal(t, db, 5)
}

// TestLostRepliesOfAGroup: the reply to a group's lease or change is lost. All its pots are changed, once.
func TestLostRepliesOfAGroup(t *testing.T) {
	t.Parallel()
	for text, cuts := range map[string]int{
		"expires": 1, // of the lease's statement
		"fenced":  2, // of the change's, that of the group before and this one's
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			direct, db, dsn := open(t)
			proxy := faultproxy.New(t, dsn)
			r := openStore(t, proxy.DSN(dsn), sqldb.PoolerNone)
			var steps []step
			for i := range 5 {
				id := direct.mustCreate(t, "pot-"+strconv.Itoa(i), 10)
				steps = append(steps, step{id, addGold(1)}, step{id, addGold(2)})
			}
			cut := func() {
				proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching(text), faultproxy.Times(cuts))
			}
			if err := errors.Join(r.together(t, cut, steps...)...); err != nil {
				t.Error(err)
			}
			if proxy.Cuts() != cuts {
				t.Errorf("%d cuts, want %d", proxy.Cuts(), cuts)
			}
			wantTotal(t, db, 15)
		})
	}
}
