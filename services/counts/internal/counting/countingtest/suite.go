// Package countingtest holds the suite that every counting.CountValueRepository must pass, and the repositories for the
// tests of the ports: Memory, which passes the suite.
package countingtest

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// Exercise tests a repository against its port: the promises of each method (contract), that a refused change leaves
// nothing behind (transactions), and that concurrent callers get the exact result (contention). open returns an empty
// repository for each test. Exercise skips the tests named in without, whose requests the repository does not support.
func Exercise(t *testing.T, open func(t *testing.T) counting.CountValueRepository, without ...string) {
	t.Helper()
	tests := map[string]func(*testing.T, Repo){
		"contract/create":                  create,
		"contract/add":                     addChanges,
		"contract/set":                     set,
		"contract/delete":                  remove,
		"contract/pages":                   pages,
		"contract/hostile ids":             hostileIDs,
		"contract/batch":                   batch,
		"contract/batch creates":           batchCreates,
		"contract/repeats":                 repeats,
		"contract/repeated set":            repeatedSet,
		"contract/repeated refusals":       repeatedRefusals,
		"contract/repeated delete":         repeatedDelete,
		"contract/key conflicts":           conflicts,
		"contract/keys of callers":         keysOfCallers,
		"contract/keys of no caller":       keysOfNoCaller,
		"transactions/overflow":            overflow,
		"transactions/ended context":       endedContext,
		"transactions/refused batches":     refusedBatches,
		"transactions/free key":            freeKey,
		"contention/one hot item":          hotItem,
		"contention/one creator":           oneCreator,
		"contention/overflow at the edge":  overflowAtTheEdge,
		"contention/delete while counting": deleteRace,
		"contention/one of a key":          oneOfAKey,
		"contention/keys on a hot item":    keysOnAHotItem,
	}

	for _, name := range without {
		if tests[name] == nil {
			t.Errorf("there is no test %q to leave out", name)
		}
		delete(tests, name)
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Repo{open(t)})
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Add applies one change without a key and returns the value after it.
func Add(ctx context.Context, repo counting.CountValueRepository, id counting.ItemID, delta int64) (int64, error) {
	r, err := Repo{repo}.Change(ctx, counting.Request{Changes: []counting.Change{{ItemID: id, Delta: delta}}})
	if err != nil {
		return 0, err
	}
	return r.Values[0], nil
}

// Set sets a count without a key.
func Set(
	ctx context.Context, repo counting.CountValueRepository, id counting.ItemID, value int64,
) (counting.CountValue, error) {
	v, _, err := Repo{repo}.Set(ctx, counting.Key{}, id, value)
	return v, err
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func wantValue(ctx context.Context, t *testing.T, repo Repo, id counting.ItemID, want int64) {
	t.Helper()
	if v := must[counting.CountValue](t)(repo.Find(ctx, id)); v.Current != want {
		t.Errorf("%q is %d, want %d", id, v.Current, want)
	}
}
