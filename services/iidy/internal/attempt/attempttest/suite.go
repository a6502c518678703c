package attempttest

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Exercise holds a repository against its port: what each method promises
// (contract), that a batch is applied whole or not at all (transactions), and that
// concurrent callers get the exact result (contention). open returns a repository
// of its own, empty, for each test.
func Exercise(t *testing.T, open func(t *testing.T) attempt.Repository) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, attempt.Repository){
		"contract/one item":               oneItem,
		"contract/batches":                batches,
		"contract/hostile items":          hostileItems,
		"contract/pages":                  pages,
		"contract/progress":               progress,
		"contract/claims":                 claims,
		"contract/claims fence":           claimsFence,
		"contract/claims run out":         claimsRunOut,
		"contract/extend and release":     extendAndRelease,
		"contract/abandon":                abandon,
		"transactions/staged":             staged,
		"transactions/staged and broken":  stagedBroken,
		"transactions/ended context":      endedContext,
		"contract/new items and old":      newAndOld,
		"contention/overlapping adds":     overlappingAdds,
		"contention/one item":             hotItem,
		"contention/single items":         singleItems,
		"contention/overlapping batches":  overlappingBatches,
		"contention/opposite order":       oppositeOrder,
		"contention/claimers":             claimers,
		"contention/claims and increment": claimedIncrements,
		"contention/delete and increment": deletesBesideIncrements,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

const list attempt.List = "downloads"

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

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// fixture calls a repository and demands counts.
type fixture struct {
	*testing.T

	repo attempt.Repository
}

func (f fixture) many(change attempt.Change, claim attempt.Claim, want int64, items ...attempt.Item) {
	f.Helper()
	if got := must[int64](f.T)(f.repo.Many(f.Context(), change, list, attempt.ItemsOf(items...), claim)); got != want {
		f.Errorf("%v of %q with claim %q: %d, want %d", change, items, claim, got, want)
	}
}

func (f fixture) one(change attempt.Change, item attempt.Item, claim attempt.Claim, want int64) {
	f.Helper()
	if got := must[int64](f.T)(f.repo.One(f.Context(), change, list, item, claim)); got != want {
		f.Errorf("%v of %q with claim %q: %d, want %d", change, item, claim, got, want)
	}
}

// entries demands the whole list.
func (f fixture) entries(want ...attempt.Entry) {
	f.Helper()
	if got := must[[]attempt.Entry](f.T)(f.repo.Page(f.Context(), list, "", attempt.MaxPage)); !slices.Equal(got, want) {
		f.Errorf("the list is %v, want %v", got, want)
	}
}

// claim takes items and demands which.
func (f fixture) claim(count int, lease time.Duration, want ...attempt.Item) attempt.Claim {
	f.Helper()
	l := must[attempt.Lease](f.T)(f.repo.Claim(f.Context(), list, count, lease))
	if got := itemsOf(l.Entries); !slices.Equal(got, want) {
		f.Errorf("claimed %q, want %q", got, want)
	}
	if (l.Claim == "") != (len(want) == 0) {
		f.Errorf("the claim of %d items is %q", len(want), l.Claim)
	}
	return l.Claim
}

func itemsOf(entries []attempt.Entry) []attempt.Item {
	var items []attempt.Item
	for _, e := range entries {
		items = append(items, e.Item)
	}
	return items
}

// parts gives items as Stage wants them, so many at a time, and then err.
func parts(items []attempt.Item, size int, err error) func() (*attempt.Items, error) {
	chunks := slices.Collect(slices.Chunk(items, size))
	return func() (*attempt.Items, error) {
		if len(chunks) == 0 {
			return nil, err
		}
		first := chunks[0]
		chunks = chunks[1:]
		return attempt.ItemsOf(first...), nil
	}
}

func whole(items ...attempt.Item) func() (*attempt.Items, error) { return parts(items, 2, io.EOF) }
