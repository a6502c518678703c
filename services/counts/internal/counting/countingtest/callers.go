package countingtest

import (
	"context"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

const (
	shop = "system:serviceaccount:shop:web"
	taxi = "system:serviceaccount:taxi:rides"
)

// of returns the key of a caller.
func of(caller string, k counting.Key) counting.Key {
	k.Caller = caller
	return k
}

// addOf adds 1 to "a" under a caller's key, and returns the value and whether it was replayed.
func addOf(ctx context.Context, t *testing.T, repo Repo, k counting.Key) (int64, bool) {
	t.Helper()
	r := must[counting.Answer](t)(repo.Change(ctx, counting.Request{Key: k, Changes: changes(by{"a", 1})}))
	return r.Values[0], r.Replayed
}

// keysOfCallers: a key of one caller is not the key of another. Each caller gets the answer to its own request.
func keysOfCallers(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))

	callers := []string{shop, taxi, "'; DROP TABLE counts.slots; --"}
	for repeat := range 2 {
		for i, caller := range callers {
			// The contents differ, so that a shared key would be a conflict.
			v, replayed := addOf(ctx, t, repo, of(caller, key("k", byte(i))))
			if v != int64(i+1) || replayed != (repeat > 0) {
				t.Errorf("%s got %d, replayed %t; want %d", caller, v, replayed, i+1)
			}
		}
	}

	for _, caller := range callers {
		_, _, err := repo.Set(ctx, of(caller, key("k", 100)), "a", 100)
		wantErr(t, err, counting.ErrKeyConflict)
	}
	wantValue(ctx, t, repo, "a", 3)
}

// keysOfNoCaller: a key that was taken before callers were identified is taken for every caller.
func keysOfNoCaller(t *testing.T, repo Repo) {
	ctx := t.Context()
	must[counting.CountValue](t)(repo.Create(ctx, "a", 0))
	addOf(ctx, t, repo, key("k", 1))
	for _, caller := range []string{shop, taxi} {
		if v, replayed := addOf(ctx, t, repo, of(caller, key("k", 1))); v != 1 || !replayed {
			t.Errorf("%s got %d, replayed %t; want the first answer", caller, v, replayed)
		}
		_, _, err := repo.Set(ctx, of(caller, key("k", 2)), "a", 10)
		wantErr(t, err, counting.ErrKeyConflict)
	}
	wantValue(ctx, t, repo, "a", 1)
}
