package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// keysOnCitus repeats changes with keys, and the refusals of such: each is answered as it was the first time. A key
// that was reserved alone is as if it were not there, and one that has expired is free again.
func keysOnCitus(t *testing.T, dsn string, s *postgres.Store) {
	t.Helper()
	mustCreate(t, s, "k", "high")
	if _, err := countingtest.Set(t.Context(), s, "high", math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	with := func(key string, id counting.ItemID, delta int64) (counting.Result, error) {
		return s.Apply(t.Context(), counting.Update{
			Key:     counting.Key{Value: key, Fingerprint: [16]byte{byte(delta)}, Caller: "taxi"},
			Changes: []counting.Change{{ItemID: id, Delta: delta}},
		})
	}
	reserved := `INSERT INTO counts.item_keys (item_id, caller, key, expires_at) VALUES ('k', '', 'one', 'infinity')`
	apptest.Execute(t, dbtest.Dial(t, dsn), reserved)
	for replayed := range 2 {
		if got, err := with("one", "k", 5); err != nil || got.Values[0] != 5 || got.Replayed != (replayed > 0) {
			t.Errorf("add: %+v, %v", got, err)
		}
		for key, want := range map[string]struct {
			id  counting.ItemID
			err error
		}{"absent": {"absent", counting.ErrNotFound}, "over": {"high", counting.ErrOverflow}} {
			if got, err := with(key, want.id, 1); !errors.Is(err, want.err) || got.Replayed != (replayed > 0) {
				t.Errorf("%s: %+v, %v", key, got, err)
			}
		}
		if replayed == 0 {
			mustCreate(t, s, "absent") // repeated, the refusals stay
			if _, err := countingtest.Set(t.Context(), s, "high", 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := with("one", "k", 6); !errors.Is(err, counting.ErrKeyConflict) {
		t.Errorf("another request with the key: %v", err)
	}
	_, _, err := s.Set(t.Context(), counting.Key{Value: "one", Caller: "taxi"}, "k", 1)
	if !errors.Is(err, counting.ErrKeyConflict) {
		t.Errorf("a set with the key: %v", err)
	}
	apptest.Execute(t, dbtest.Dial(t, dsn), `UPDATE counts.item_keys SET expires_at = '-infinity' WHERE item_id = 'k'`)
	if got, err := with("one", "k", 6); err != nil || got.Values[0] != 11 || got.Replayed {
		t.Errorf("an expired key: %+v, %v", got, err)
	}
	apptest.Execute(t, dbtest.Dial(t, dsn), `UPDATE counts.item_keys SET expires_at = '-infinity' WHERE item_id = 'k'`)
	deleted := 0
	if err := s.DeleteExpired(t.Context(), postgres.Keys, func(n int) { deleted += n }); err != nil || deleted != 2 {
		t.Errorf("deleted %d keys, want the key's two places: %v", deleted, err)
	}
	wantValue(t, s, "k", 11)
	wantValue(t, s, "absent", 0)
	wantValue(t, s, "high", 0)
}

// addWithKeysOnCitus adds 1 under keys from many callers, two for each key and beside them as many without a key, and
// repeats each request with a key until it is answered: each key is counted once, whatever gets lost.
func addWithKeysOnCitus(t *testing.T, stores []*postgres.Store, prefix string, items int) {
	t.Helper()
	id := func(i int) counting.ItemID { return counting.ItemID(fmt.Sprintf("%s-%d", prefix, i%items)) }
	for i := range items {
		for err := errors.New("none"); err != nil && !errors.Is(err, counting.ErrExists); {
			_, err = stores[0].Create(t.Context(), id(i), 0)
		}
	}
	const callers, rounds, most = 20, 20, 50
	values := make([][2]int64, callers/2*rounds)
	var firsts, retries atomic.Int64
	waittest.Together(t, callers, func(c int) error {
		for r := range rounds {
			n := c/2*rounds + r
			for try := 0; ; try++ {
				got, err := stores[c%len(stores)].Apply(t.Context(), update(fmt.Sprint(prefix, n), id(n)))
				if err == nil {
					values[n][c%2] = got.Values[0]
					if !got.Replayed {
						firsts.Add(1)
					}
					break
				}
				if try == most {
					return err
				}
				retries.Add(1)
			}
		}
		return nil
	})
	var sum int64
	byItem := make(map[counting.ItemID][]int64)
	for i := range items {
		v, err := stores[1].Find(t.Context(), id(i))
		if err != nil {
			t.Fatal(err)
		}
		sum += v.Current
	}
	for n, pair := range values {
		if pair[0] != pair[1] {
			t.Errorf("key %d was answered %d and %d", n, pair[0], pair[1])
		}
		byItem[id(n)] = append(byItem[id(n)], pair[0])
	}
	for item, all := range byItem { // the values that callers get one after the other
		slices.Sort(all)
		for i, v := range all {
			if v != int64(i+1) {
				t.Errorf("%s: the values are %v", item, all)
				break
			}
		}
	}
	t.Logf("%d keys, %d answered first, %d tries more, sum %d", len(values), firsts.Load(), retries.Load(), sum)
	if sum != int64(len(values)) || firsts.Load() > sum {
		t.Errorf("sum %d, %d answers were the first, want %d", sum, firsts.Load(), len(values))
	}
}
