// Package attempttest holds the suite that every attempt.Repository must pass.
package attempttest

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Exercise tests a repository: the promises of each method (contract), that a batch is
// applied all or nothing (transactions), and that concurrent callers get exact results
// (contention). open returns an empty repository for each test.
func Exercise(t *testing.T, open func(t *testing.T) attempt.Repository) {
	t.Helper()
	tests := map[string]func(fixture){
		"contract/one item":              oneItem,
		"contract/batches":               batches,
		"contract/new items and old":     newAndOld,
		"contract/hostile items":         hostileItems,
		"contract/pages":                 pages,
		"contract/counts":                counts,
		"contract/claims":                claims,
		"contract/claims fence":          claimsFence,
		"contract/claims end":            claimsEnd,
		"contract/extend and release":    extendAndRelease,
		"contract/abandon":               abandon,
		"transactions/staged":            staged,
		"transactions/staged and broken": stagedBroken,
		"transactions/ended context":     endedContext,
		"contention/one item":            hotItem,
		"contention/many items":          manyItems,
		"contention/overlapping batches": overlappingBatches,
		"contention/claimers":            claimers,
		"contention/opposite order":      oppositeOrder,
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(fixture{t, open(t)})
		})
	}
}

const list attempt.List = "downloads"

// fixture calls a repository and compares its answers. want is the number of items that
// a change must count.
type fixture struct {
	*testing.T

	repo attempt.Repository
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (f fixture) want(what string, n int64, err error, want int64) {
	f.Helper()
	if n != want || err != nil {
		f.Errorf("%s: %d, want %d (%v)", what, n, want, err)
	}
}

func (f fixture) many(change attempt.Change, claim attempt.Claim, want int64, items ...attempt.Item) {
	f.Helper()
	n, err := f.repo.ApplyBatch(f.Context(), change, list, attempt.ItemsOf(items...), claim)
	f.want(change.String()+" with claim "+string(claim), n, err, want)
}

func (f fixture) one(change attempt.Change, item attempt.Item, claim attempt.Claim, want int64) {
	f.Helper()
	n, err := f.repo.Apply(f.Context(), change, list, item, claim)
	f.want(change.String()+" of "+string(item)+" with claim "+string(claim), n, err, want)
}

func (f fixture) staged(change attempt.Change, claim attempt.Claim, want int64, items ...attempt.Item) {
	f.Helper()
	n, err := f.repo.ApplyStaged(f.Context(), change, list, parts(items, 2, nil), claim)
	f.want("staged "+change.String(), n, err, want)
}

// attempts compares the attempts of one item.
func (f fixture) attempts(list attempt.List, item attempt.Item, want int64) {
	f.Helper()
	n, err := f.repo.Get(f.Context(), list, item)
	f.want("attempts of "+string(item), n, err, want)
}

// all returns the whole list.
func (f fixture) all() []attempt.Entry {
	f.Helper()
	return f.page("", attempt.MaxPage)
}

// page returns a page and checks that its Len and Last match its entries.
func (f fixture) page(after string, count int) []attempt.Entry {
	f.Helper()
	p := must(f.repo.Page(f.Context(), list, after, count))(f.T)
	all := listed(p)
	if len(all) != p.Len() || len(all) > 0 && all[len(all)-1].Item != p.Last() || len(all) == 0 && p.Last() != "" {
		f.Errorf("a page of %d entries that ends in %q has %v", p.Len(), p.Last(), all)
	}
	return all
}

// listed closes entries and returns them.
func listed(entries attempt.Entries) []attempt.Entry {
	defer entries.Close()
	return slices.Collect(entries.All())
}

// entries compares the whole list.
func (f fixture) entries(want ...attempt.Entry) {
	f.Helper()
	if got := f.all(); !slices.Equal(got, want) {
		f.Errorf("the list is %v, want %v", got, want)
	}
}

// claim takes items and compares them.
func (f fixture) claim(count int, lease time.Duration, want ...attempt.Item) attempt.Claim {
	f.Helper()
	l := must(f.repo.Claim(f.Context(), list, count, lease))(f.T)
	if got := itemsOf(listed(l.Entries)); !slices.Equal(got, want) {
		f.Errorf("claimed %q, want %q", got, want)
	}
	if (l.Claim == "") != (len(want) == 0) {
		f.Errorf("the claim of %d items is %q", len(want), l.Claim)
	}
	return l.Claim
}

func (f fixture) wantErr(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("got error %v, want %v", err, want)
	}
}

func itemsOf(entries []attempt.Entry) []attempt.Item {
	var items []attempt.Item
	for _, e := range entries {
		items = append(items, e.Item)
	}
	return items
}

// parts returns the argument of ApplyStaged: items, so many at a time, and then err unless it is nil.
func parts(items []attempt.Item, size int, err error) iter.Seq2[*attempt.Items, error] {
	return func(yield func(*attempt.Items, error) bool) {
		for chunk := range slices.Chunk(items, size) {
			if !yield(attempt.ItemsOf(chunk...), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
