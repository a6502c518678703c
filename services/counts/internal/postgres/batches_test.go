package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// A count that another transaction has locked delays its callers and the batches that name it. These keep no other
// count locked while they wait.
func TestLockedCountDelaysOnlyBatchesThatNameIt(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "locked", "z")
	holder := lock(t, db, "locked")
	blocked := make(chan error, 12)
	for i := range cap(blocked) {
		u := []counting.Update{
			update("", "locked"), update("", "a", "locked", "z"), update("", "locked", "z"),
			update(strconv.Itoa(i), "z", "locked"),
		}[i%4]
		go func() {
			_, err := s.Apply(t.Context(), u)
			blocked <- err
		}()
	}
	for i := range 100 {
		for n, u := range []counting.Update{update("", "a", "z"), update("a"+strconv.Itoa(i), "a"), update("", "a")} {
			got, err := s.Apply(t.Context(), u)
			if want := int64(3*i + n + 1); err != nil || got.Values[0] != want {
				t.Fatalf("free: %+v, %v; want %d", got, err, want)
			}
		}
		_, err := s.Apply(t.Context(), update("", "a", "missing"))
		if refused, ok := errors.AsType[*counting.ChangeError](err); !ok || refused.Index != 1 ||
			!errors.Is(err, counting.ErrNotFound) {
			t.Fatalf("missing: %v", err)
		}
	}
	waitsFor(t, db, 100*time.Millisecond) // longer than the first, brief wait
	apptest.Execute(t, db, `SELECT FROM counts.count_values WHERE item_id <> 'locked' FOR UPDATE NOWAIT`)
	select {
	case err := <-blocked:
		t.Fatalf("a request for the locked count was answered: %v", err)
	default:
	}
	holder.Rollback()
	for range cap(blocked) {
		if err := <-blocked; err != nil {
			t.Error(err)
		}
	}
	wantValue(t, s, "locked", 12)
	wantValue(t, s, "a", 300+3)
	wantValue(t, s, "z", 100+9)
}

// In the pass that skips locked counts, a batch of a locked one is applied not at all and is told apart from one of a
// missing one, and the others of its group are applied.
func TestBatchOfALockedCountIsSkippedWhole(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "b", "locked")
	holder := lock(t, db, "locked")
	create := update("d", "a", "locked", "new")
	create.Create = true
	all, err := s.ApplyTogether(t.Context(), 0, update("", "a", "b"), update("", "a", "locked"), update("", "locked"),
		update("k", "b", "locked", "missing"), update("", "a", "missing"), update("l", "b"), create)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		isLocked := i == 1 || i == 2 || i == 3 || i == 6
		if a.Locked != isLocked || errors.Is(a.Err, counting.ErrNotFound) != (i == 4) {
			t.Errorf("request %d got %+v", i, a)
		}
	}
	holder.Rollback()
	wantValue(t, s, "a", 1)
	wantValue(t, s, "b", 2)
	wantValue(t, s, "locked", 0)
	if _, err := s.Find(t.Context(), "new"); !errors.Is(err, counting.ErrNotFound) {
		t.Errorf("a batch that was skipped created a count: %v", err)
	}
}

// Batches of two replicas that name the same counts in crossing orders, with keys and without, and that create some of
// them: exact sums, and not one deadlock.
func TestBatchesOfReplicasDoNotDeadlock(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.WatchDeadlocks(t, dsn)
	replicas := []*postgres.Store{openPatient(t, dsn), openPatient(t, dsn)}
	const items, callers, each = 60, 24, 15
	ids := make([]counting.ItemID, items)
	for i := range ids {
		ids[i] = counting.ItemID(fmt.Sprintf("item-%02d", i))
	}
	mustCreate(t, replicas[0], ids[:items/2]...)
	var sums [items]atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		random := rand.New(rand.NewPCG(2, uint64(c)))
		for round := range each {
			u := counting.Update{Create: true}
			if random.IntN(2) == 0 {
				u.Key.Value = fmt.Sprintf("%d-%d", random.IntN(100), c*each+round)
			}
			for _, k := range random.Perm(items)[:1+random.IntN(20)] {
				u.Changes = append(u.Changes, counting.Change{ItemID: ids[k], Delta: int64(1 + k)})
				sums[k].Add(int64(1 + k))
			}
			if _, err := replicas[c%2].Apply(t.Context(), u); err != nil {
				return err
			}
		}
		return nil
	})
	for k, id := range ids {
		wantValue(t, replicas[0], id, sums[k].Load())
	}
}

// Groups of two replicas that name new counts in crossing orders both wait for a third session, which has created one
// of them and undoes that: each change is counted, nothing is created for what is refused, and there is no deadlock.
func TestReplicasCreateTogether(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.WatchDeadlocks(t, dsn)
	db, replicas := dbtest.Dial(t, dsn), []*postgres.Store{openPatient(t, dsn), openPatient(t, dsn)}
	if _, err := replicas[0].Create(t.Context(), "full", math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	const rounds, counts = 5, 10
	for round := range rounds {
		ids := make([]counting.ItemID, counts)
		for i := range ids {
			ids[i] = counting.ItemID(fmt.Sprintf("%d %d", round, i))
		}
		holder := apptest.Hold(t, db, `INSERT INTO counts.count_values (item_id) VALUES ($1)`, string(ids[counts/2]))
		group := make([]counting.Update, 3)
		for i := range group {
			group[i] = update("", ids...)
			group[i].Create = true
		}
		slices.Reverse(group[1].Changes)
		group[2].Changes = append(group[2].Changes, counting.Change{ItemID: "full", Delta: 1},
			counting.Change{ItemID: counting.ItemID(fmt.Sprintf("%d refused", round)), Delta: 1})
		answers := make(chan []postgres.Answer, len(replicas))
		for i, replica := range replicas {
			ofReplica := slices.Clone(group[:len(group)-i]) // one alone locks the full count
			ofReplica[0].Key.Value = fmt.Sprintf("%d-%d", round, i)
			go func() {
				all, err := replica.ApplyTogether(t.Context(), time.Minute, ofReplica...)
				if err != nil {
					t.Error(err)
				}
				answers <- all
			}()
		}
		apptest.WaitForBlocked(t, db, len(replicas))
		holder.Rollback()
		for range replicas {
			for i, a := range <-answers {
				if refused := i == 2; errors.Is(a.Err, counting.ErrOverflow) != refused || (a.Err != nil) != refused {
					t.Errorf("round %d: request %d got %+v", round, i, a)
				}
			}
		}
		for _, id := range ids {
			wantValue(t, replicas[0], id, int64(2*len(replicas)))
		}
	}
	page, err := replicas[0].Page(t.Context(), "", "", 1000)
	if err != nil || len(page) != counts*rounds+1 {
		t.Errorf("%d counts are there, want %d (%v)", len(page), counts*rounds+1, err)
	}
}

// At the edge, adds, batches and requests with keys get what is left exactly, and those with keys are refused for good.
func TestUpdatesAtTheEdge(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s := openPatient(t, dsn)
	const left, callers = 20, 60
	if _, err := s.Create(t.Context(), "edge", math.MaxInt64-left); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, "other")
	var won, others atomic.Int64
	waittest.Together(t, callers, func(i int) error {
		key := strconv.Itoa(i)
		u := []counting.Update{update("", "edge"), update(key, "edge"), update(key, "other", "edge")}[i%3]
		_, err := s.Apply(t.Context(), u)
		again, repeated := error(nil), false
		if u.Key.Value != "" {
			var r counting.Result
			r, again = s.Apply(t.Context(), u)
			repeated = !r.Replayed || errors.Is(again, counting.ErrOverflow) != errors.Is(err, counting.ErrOverflow)
		}
		switch {
		case repeated:
			return fmt.Errorf("a repeat got %w, the first %w", again, err)
		case err == nil:
			won.Add(1)
			others.Add(int64(i % 3 / 2))
			return nil
		case errors.Is(err, counting.ErrOverflow):
			return nil
		}
		return err
	})
	if won.Load() != left {
		t.Errorf("%d changes fitted, want %d", won.Load(), left)
	}
	wantValue(t, s, "edge", math.MaxInt64)
	wantValue(t, s, "other", others.Load())
}

// A count was full when the batch came, and no longer is when the batch gets its lock.
func TestBatchWaitsForRoom(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	if _, err := s.Create(t.Context(), "full", math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, "a")
	holder := apptest.Hold(t, db, `UPDATE counts.count_values SET current_value = 10 WHERE item_id = 'full'`)
	result := make(chan error, 1)
	go func() {
		got, err := s.Apply(t.Context(), update("k", "a", "full"))
		if err == nil && (got.Values[0] != 1 || got.Values[1] != 11) {
			err = fmt.Errorf("got %+v", got)
		}
		result <- err
	}()
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantValue(t, s, "full", 11)
}

// A batch may leave int64 with its sum and not with its value; the first change that does leave it is named.
func TestBatchesBeyondInt64(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbtest.Postgres(t, postgres.Migrations()), sqldb.PoolerNone)
	if _, err := s.Create(t.Context(), "low", math.MinInt64); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, "a", "zero")
	u := counting.Update{Key: counting.Key{Value: "k"}, Changes: []counting.Change{
		{ItemID: "low", Delta: math.MaxInt64}, {ItemID: "a", Delta: 1}, {ItemID: "low", Delta: math.MaxInt64},
	}}
	for _, replayed := range []bool{false, true} {
		got, err := s.Apply(t.Context(), u)
		if err != nil || got.Replayed != replayed || got.Values[0] != -1 || got.Values[2] != math.MaxInt64-1 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	u.Key.Value = "l"
	_, err := s.Apply(t.Context(), u)
	if refused, ok := errors.AsType[*counting.ChangeError](err); !ok || refused.Index != 0 {
		t.Errorf("got %v, want change 0 refused", err)
	}
	thrice := counting.Update{Changes: slices.Repeat([]counting.Change{{ItemID: "zero", Delta: math.MaxInt64}}, 3)}
	_, err = s.Apply(t.Context(), thrice)
	if refused, ok := errors.AsType[*counting.ChangeError](err); !ok || refused.Index != 1 {
		t.Errorf("three times the largest amount: %v, want change 1 refused", err)
	}
	wantValue(t, s, "a", 1)
	wantValue(t, s, "zero", 0)
	wantValue(t, s, "low", math.MaxInt64-1)
}

// Another session creates a count just before a batch does: the batch goes on from its value.
func TestCreateMeetsACountJustCreated(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	holder := apptest.Hold(t, db, `INSERT INTO counts.count_values (item_id, current_value) VALUES ('new', 10)`)
	u := update("k", "a", "new")
	u.Create = true
	answers := make(chan []postgres.Answer, 1)
	go func() {
		all, err := s.ApplyTogether(t.Context(), time.Minute, u)
		if err != nil {
			t.Error(err)
		}
		answers <- all
	}()
	apptest.WaitForBlocked(t, db, 1)
	holder.Commit()
	for _, a := range <-answers {
		if a.Err != nil || a.Replayed || !slices.Equal(a.Values, []int64{1, 11}) {
			t.Errorf("got %+v, want 1 and 11", a)
		}
	}
	wantValue(t, s, "new", 11)
}
