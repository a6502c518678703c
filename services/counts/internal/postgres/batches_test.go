package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
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
	blocked := inBackground(12, func(i int) error {
		_, err := s.Change(t.Context(), []counting.Request{
			update("", "locked"), update("", "a", "locked", "z"), update("", "locked", "z"),
			update(strconv.Itoa(i), "z", "locked"),
		}[i%4])
		return err
	})
	for i := range 100 {
		for n, u := range []counting.Request{update("", "a", "z"), update("a"+strconv.Itoa(i), "a"), update("", "a")} {
			got, err := s.Change(t.Context(), u)
			if want := int64(3*i + n + 1); err != nil || got.Values[0] != want {
				t.Fatalf("free: %+v, %v; want %d", got, err, want)
			}
		}
		for index, u := range []counting.Request{update("", "missing"), update("", "a", "missing")} {
			if got, err := s.Change(t.Context(), u); got.Index != index || !errors.Is(err, counting.ErrNotFound) {
				t.Fatalf("missing: %+v, %v", got, err)
			}
		}
	}
	waittest.Eventually(t, "nothing else is held between two tries", func() bool {
		const query = `SELECT 1 FROM counts.count_values WHERE item_id <> 'locked' FOR UPDATE NOWAIT`
		var rows []int
		return db.SelectContext(t.Context(), &rows, query) == nil
	})
	wantNone(t, blocked)
	holder.Rollback()
	wantDone(t, blocked)
	wantValue(t, s, "locked", 12)
	wantValue(t, s, "a", 300+3)
	wantValue(t, s, "z", 100+9)
}

// Adds and batches of two replicas that name the same counts in crossing orders, with keys and without, and that create
// some of them: exact sums, and not one deadlock.
func TestReplicasDoNotDeadlock(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.WatchDeadlocks(t, dsn)
	replicas := []*replica{openPatient(t, dsn), openPatient(t, dsn)}
	const items, callers, each = 60, 40, 20
	ids := make([]counting.ItemID, items)
	for i := range ids {
		ids[i] = counting.ItemID(fmt.Sprintf("item-%02d", i))
	}
	mustCreate(t, replicas[0], ids[:items/2]...)
	var sums [items]atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		random := rand.New(rand.NewPCG(2, uint64(c)))
		for round := range each {
			u, named := counting.Request{CreateMissing: true}, random.Perm(items)[:1+random.IntN(20)]
			switch random.IntN(3) {
			case 0: // shares a statement with other adds, of counts that exist
				u, named = counting.Request{}, []int{random.IntN(items / 2)}
			case 1:
				u.Key.Value = fmt.Sprintf("%d-%d", random.IntN(100), c*each+round)
			}
			for _, k := range named {
				u.Changes = append(u.Changes, counting.Change{ItemID: ids[k], Delta: int64(1 + k)})
				sums[k].Add(int64(1 + k))
			}
			if _, err := replicas[c%2].Change(t.Context(), u); err != nil {
				return err
			}
		}
		return nil
	})
	for k, id := range ids {
		wantValue(t, replicas[0], id, sums[k].Load())
	}
}

// Another session creates a count just before batches of two replicas do: these go on from its value, and when it
// undoes the count instead, they create it.
func TestCreateMeetsACountJustCreated(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.WatchDeadlocks(t, dsn)
	db, replicas := dbtest.Dial(t, dsn), []*replica{openPatient(t, dsn), openPatient(t, dsn)}
	for end, value := range map[string]int64{"commit": 10, "rollback": 0} {
		old, created := counting.ItemID("old "+end), counting.ItemID("new "+end)
		holder := apptest.Hold(t, db,
			`INSERT INTO counts.count_values (item_id, current_value) VALUES ($1, 10)`, string(created))
		const callers = 6
		values := make(chan int64, callers)
		for i := range callers {
			u := update([]string{"", end + strconv.Itoa(i)}[i%2], old, created)
			u.CreateMissing = true
			if i%3 == 0 {
				slices.Reverse(u.Changes)
			}
			go func() {
				got, err := replicas[i%2].Change(t.Context(), u)
				if err != nil || got.Replayed {
					t.Errorf("%s: %+v, %v", end, got, err)
				}
				values <- slices.Max(got.Values)
			}()
		}
		apptest.WaitForBlocked(t, db, 2)
		if end == "commit" {
			holder.Commit()
		} else {
			holder.Rollback()
		}

		var all []int64
		for range callers {
			all = append(all, <-values)
		}
		slices.Sort(all)
		for i, v := range all {
			if v != value+int64(i)+1 {
				t.Errorf("%s: the batches got %v", end, all)
				break
			}
		}
		wantValue(t, replicas[0], old, callers)
		wantValue(t, replicas[0], created, value+callers)
	}
}

// In the pass that skips locked counts, a batch of a locked one is applied not at all and is told apart from one of a
// missing one, and the others of its group are applied.
func TestBatchOfALockedCountIsSkippedWhole(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openPatient(t, dsn), dbtest.Dial(t, dsn)
	mustCreate(t, s, "a", "locked")
	holder := lock(t, db, "locked")
	all, err := s.store.ChangeTogether(t.Context(), 0,
		update("k", "a", "locked"), update("", "locked"), update("", "a", "missing"), update("l", "a"))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		isLocked := i < 2
		if (a == nil || a.HeldUp) != isLocked || !isLocked && errors.Is(a.Err(), counting.ErrNotFound) != (i == 2) {
			t.Errorf("request %d got %+v", i, a)
		}
	}
	holder.Rollback()
	wantValue(t, s, "a", 1)
	wantValue(t, s, "locked", 0)
}
