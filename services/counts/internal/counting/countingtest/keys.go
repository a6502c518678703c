package countingtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// key returns a key with a fingerprint.
func key(value string, fingerprint byte) counting.Key {
	return counting.Key{Value: value, Fingerprint: [16]byte{fingerprint}}
}

func keyed(value string, list ...by) counting.Request {
	return counting.Request{Key: key(value, 1), Changes: changes(list...)}
}

// repeats: a repeat gets the first answer, whatever the value is now, and changes nothing.
func repeats(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 10))
	must[counting.CountValue](t)(repo.Create(ctx, "b", 20))

	for name, update := range map[string]counting.Request{
		"one":        keyed("one", by{"a", 5}),
		"batch":      keyed("batch", by{"a", 1}, by{"b", 2}, by{"a", 3}),
		"'; DROP \"": keyed("'; DROP \"", by{"b", 1}),
	} {
		first := must[counting.Answer](t)(repo.Change(ctx, update))
		if first.Replayed || len(first.Values) != len(update.Changes) {
			t.Errorf("%s: the first request got %+v", name, first)
		}

		// The count moves on before the repeats.
		must[int64](t)(Add(ctx, repo, "a", 1000))
		before := must[counting.CountValue](t)(repo.Find(ctx, "a"))
		for range 2 {
			again := must[counting.Answer](t)(repo.Change(ctx, update))
			if !again.Replayed || !slices.Equal(again.Values, first.Values) {
				t.Errorf("%s: a repeat got %+v, the first %+v", name, again, first)
			}
		}
		if after := must[counting.CountValue](t)(repo.Find(ctx, "a")); after != before {
			t.Errorf("%s: a repeat made %+v of %+v", name, after, before)
		}
	}

	wantValue(ctx, t, repo, "a", 10+5+1+3+3000)
	wantValue(ctx, t, repo, "b", 20+2+1)
}

// repeatedSet: a repeat gets the first value and time.
func repeatedSet(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 10))
	first, replayed, err := repo.Set(ctx, key("k", 1), "a", 7)
	if err != nil || replayed || first.Current != 7 {
		t.Fatalf("set: %+v, replayed %t, %v", first, replayed, err)
	}
	must[int64](t)(Add(ctx, repo, "a", 1))
	again, replayed, err := repo.Set(ctx, key("k", 1), "a", 7)
	if err != nil || !replayed || again.ItemID != first.ItemID || again.Current != first.Current ||
		!again.UpdatedAt.Equal(first.UpdatedAt) {
		t.Errorf("repeated: %+v, replayed %t, %v; the first was %+v", again, replayed, err, first)
	}
	wantValue(ctx, t, repo, "a", 8)
}

// conflicts: another request under a used key changes nothing, whatever the two operations.
func conflicts(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))
	must[counting.Answer](t)(repo.Change(ctx, keyed("add", by{"a", 1})))
	if _, _, err := repo.Set(ctx, key("set", 1), "a", 5); err != nil {
		t.Fatal(err)
	}

	for _, used := range []string{"add", "set"} {
		got, err := repo.Change(ctx, counting.Request{Key: key(used, 2), Changes: changes(by{"a", 10})})
		wantErr(t, err, counting.ErrKeyConflict)
		_, replayed, err := repo.Set(ctx, key(used, 3), "a", 10)
		wantErr(t, err, counting.ErrKeyConflict)
		_, err = repo.Change(ctx, counting.Request{Key: key(used, 4), Changes: changes(by{"absent", 1})})
		wantErr(t, err, counting.ErrKeyConflict) // not ErrNotFound: the key decides
		_, err = repo.Change(ctx, counting.Request{Key: key(used, 5), Changes: changes(by{"absent", 1}), CreateMissing: true})
		wantErr(t, err, counting.ErrKeyConflict)
		if got.Replayed || replayed {
			t.Error("a conflict is called a replay")
		}
	}

	wantValue(ctx, t, repo, "a", 5)
	_, err := repo.Find(ctx, "absent")
	wantErr(t, err, counting.ErrNotFound)
}

// repeatedRefusals: a repeat of a refused request is refused too, although the change would be possible by now.
func repeatedRefusals(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))
	must[counting.CountValue](t)(repo.Create(ctx, "high", math.MaxInt64))
	create := keyed("create", by{"y", 1}, by{"high", 1})
	create.CreateMissing = true

	refuse := func(want bool) {
		for _, tc := range []struct {
			update counting.Request
			index  int
			err    error
		}{
			{keyed("absent", by{"x", 1}), 0, counting.ErrNotFound},
			{keyed("overflow", by{"high", 1}), 0, counting.ErrOverflow},
			{keyed("batch absent", by{"a", 1}, by{"high", -1}, by{"x", 1}), 2, counting.ErrNotFound},
			{keyed("batch overflow", by{"a", 1}, by{"high", 1}), 1, counting.ErrOverflow},
			{create, 1, counting.ErrOverflow},
		} {
			got, err := repo.Change(ctx, tc.update)
			wantErr(t, err, tc.err)
			if got.Replayed != want || got.Index != tc.index {
				t.Errorf("%s: got %+v, want change %d and replayed %t", tc.update.Key.Value, got, tc.index, want)
			}
		}
		_, replayed, err := repo.Set(ctx, key("set absent", 1), "x", 5)
		wantErr(t, err, counting.ErrNotFound)
		if replayed != want {
			t.Errorf("set: replayed is %t, want %t", replayed, want)
		}
	}

	refuse(false)

	// Every change is possible now.
	must[counting.CountValue](t)(repo.Create(ctx, "x", 0))
	must[counting.CountValue](t)(Set(ctx, repo, "high", 0))
	refuse(true)

	wantValue(ctx, t, repo, "a", 0)
	wantValue(ctx, t, repo, "x", 0)
	wantValue(ctx, t, repo, "high", 0)
	_, err := repo.Find(ctx, "y")
	wantErr(t, err, counting.ErrNotFound)
}

// repeatedDelete: a repeat gets the first answer, and does not delete a count that was created since; a repeated
// creation does not create again either.
func repeatedDelete(t *testing.T, repo Repo) {
	ctx := t.Context()
	create := func(want error, wantReplayed bool) {
		t.Helper()
		v, replayed, err := repo.CreateOnce(ctx, key("create", 1), "x", 3)
		wantErr(t, err, want)
		if replayed != wantReplayed || want == nil && v.Current != 3 {
			t.Errorf("created %+v, replayed %t, want %t", v, replayed, wantReplayed)
		}
	}
	remove := func(name string, want error, wantReplayed bool) {
		t.Helper()
		replayed, err := repo.DeleteOnce(ctx, key(name, 1), "x")
		wantErr(t, err, want)
		if replayed != wantReplayed {
			t.Errorf("%s: replayed is %t, want %t", name, replayed, wantReplayed)
		}
	}

	remove("none to delete", counting.ErrNotFound, false)
	create(nil, false)
	remove("none to delete", counting.ErrNotFound, true)
	remove("delete", nil, false)
	create(nil, true)
	_, err := repo.Find(ctx, "x")
	wantErr(t, err, counting.ErrNotFound)

	must[counting.CountValue](t)(repo.Create(ctx, "x", 5))
	remove("delete", nil, true)
	wantValue(ctx, t, repo, "x", 5)
	for _, replayed := range []bool{false, true} {
		_, got, err := repo.CreateOnce(ctx, key("exists", 1), "x", 3)
		wantErr(t, err, counting.ErrExists)
		if got != replayed {
			t.Errorf("a second creation: replayed is %t, want %t", got, replayed)
		}
	}
	_, err = repo.DeleteOnce(ctx, key("exists", 2), "x")
	wantErr(t, err, counting.ErrKeyConflict)
}

// freeKey: a caller that has left takes no key.
func freeKey(t *testing.T, repo Repo) {
	must[counting.CountValue](t)(repo.Create(t.Context(), "a", 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repo.Change(ctx, keyed("k", by{"a", 1})); err == nil {
		t.Error("a change with an ended context succeeded")
	}
	got := must[counting.Answer](t)(repo.Change(t.Context(), keyed("k", by{"a", 1})))
	if got.Replayed || got.Values[0] != 1 {
		t.Errorf("got %+v, want 1 and no replay", got)
	}
}

// oneOfAKey: of many concurrent requests of a caller with one key, one is applied and all get its answer.
func oneOfAKey(t *testing.T, repo Repo) {
	ctx := t.Context()
	const callers = 40
	for _, id := range []counting.ItemID{"a", "b", "c"} {
		must[counting.CountValue](t)(repo.Create(ctx, id, 0))
	}

	var firsts [3]atomic.Int64
	waittest.Together(t, callers*len(firsts), func(i int) error {
		kind := i % len(firsts)
		switch kind {
		case 0, 1:
			update, want := keyed("key", by{"a", 1}), []int64{1}
			if kind == 1 {
				update, want = keyed("key", by{"b", 1}, by{"b", 1}), []int64{1, 2}
			}
			update.Key.Caller = []string{shop, taxi}[kind]
			got, err := repo.Change(ctx, update)
			if err != nil {
				return err
			}
			if !slices.Equal(got.Values, want) {
				return fmt.Errorf("got %+v, want %v", got, want)
			}
			if !got.Replayed {
				firsts[kind].Add(1)
			}
		default:
			_, err := repo.Change(ctx, counting.Request{Key: key("many", byte(i)), Changes: changes(by{"c", 10})})
			switch {
			case err == nil:
				firsts[kind].Add(1)
			case !errors.Is(err, counting.ErrKeyConflict):
				return err
			}
		}
		return nil
	})

	for kind := range firsts {
		if n := firsts[kind].Load(); n != 1 {
			t.Errorf("kind %d: %d requests were the first, want 1", kind, n)
		}
	}
	wantValue(ctx, t, repo, "a", 1)
	wantValue(ctx, t, repo, "b", 2)
	wantValue(ctx, t, repo, "c", 10)
}

// keysOnAHotItem: changes with and without keys, and batches, share one count. Each key is sent twice, each request is
// counted once, and nothing comes between the changes of a batch.
func keysOnAHotItem(t *testing.T, repo Repo) {
	ctx := t.Context()
	const keys = 40
	must[counting.CountValue](t)(repo.Create(ctx, "hot", 0))

	got := make([][]int64, 4*keys)
	waittest.Together(t, 4*keys, func(i int) error {
		var update counting.Request
		switch name := fmt.Sprintf("key %d", i%keys); i / keys {
		case 0:
			update = counting.Request{Changes: changes(by{"hot", 1})}
		case 1:
			update = counting.Request{Changes: changes(by{"hot", 1}, by{"hot", 1})}
		default:
			update = keyed(name, by{"hot", 1})
		}
		r, err := repo.Change(ctx, update)
		got[i] = r.Values
		return err
	})

	var values []int64
	for i, v := range got[:3*keys] {
		values = append(values, v...)
		if len(v) == 2 && v[1] != v[0]+1 {
			t.Errorf("a batch got %v", v)
		}
		if i >= 2*keys && !slices.Equal(v, got[i+keys]) {
			t.Errorf("one key got %v and %v", v, got[i+keys])
		}
	}

	slices.Sort(values)
	for i, v := range values {
		if v != int64(i+1) {
			t.Fatalf("value %d stands where %d should: a change is counted twice, or not at all", v, i+1)
		}
	}
	wantValue(ctx, t, repo, "hot", 4*keys)
}
