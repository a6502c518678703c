package pot_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// onePot is a repository with one pot that no other caller changes, and which keeps the page that was asked for.
type onePot struct {
	pot.Repository

	pot           pot.Pot
	total         int64
	limit, offset int64
}

func (r *onePot) Change(_ context.Context, c pot.Change) (pot.Contents, error) {
	after, answer := r.pot.Apply(c, rand.NewChaCha8([32]byte{1}))
	r.pot.Contents = after
	if answer.Full {
		return nil, pot.ErrFull
	}
	return answer.Moved, nil
}

func (r *onePot) List(_ context.Context, limit, offset int64) ([]pot.Pot, int64, error) {
	r.limit, r.offset = limit, offset
	return nil, r.total, nil
}

func coins(pairs ...int64) (list []pot.Coins) {
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, pot.Coins{Kind: pot.Kind(pair[0]), Count: pair[1]})
	}
	return list
}

func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	r := &onePot{pot: pot.Pot{MaxCoins: 100}}
	s := pot.NewService(r)
	for _, tt := range []struct {
		name   string
		add    []pot.Coins
		remove []pot.Coins
		count  int64
		want   []pot.Coins
		err    error
		after  []pot.Coins
	}{
		{"kinds are summed", coins(100, 1, 1, 50, 100, 2), nil, 0, coins(1, 50, 100, 3), nil, coins(1, 50, 100, 3)},
		{"one too many", coins(10, 40, 1, 8), nil, 0, nil, pot.ErrFull, coins(1, 50, 100, 3)},
		{"far too many", slices.Repeat(coins(10, math.MaxInt32), 100), nil, 0, nil, pot.ErrFull, coins(1, 50, 100, 3)},
		{"until it is full", coins(10, 47), nil, 0, coins(10, 47), nil, coins(1, 50, 10, 47, 100, 3)},
		{"no more than it has", nil, coins(100, 2, 100, 2, 1, 5), 0, coins(1, 5, 100, 3), nil, coins(1, 45, 10, 47)},
		{"none of the kind", nil, coins(100, 1), 0, nil, nil, coins(1, 45, 10, 47)},
		{"kinds first, then the rest", nil, coins(1, 45), 46, coins(1, 45, 10, 46), nil, coins(10, 1)},
		{"more at random than it has", nil, nil, math.MaxInt32, coins(10, 1), nil, nil},
		{"out of an empty pot", nil, nil, 1, nil, nil, nil},
	} {
		got, err := s.Remove(t.Context(), 1, tt.remove, tt.count)
		if tt.add != nil {
			got, err = s.Add(t.Context(), 1, tt.add)
		}
		if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, err, tt.want, tt.err)
		}
		if left := r.pot.Contents.List(); !slices.Equal(left, tt.after) {
			t.Errorf("%s: left %v, want %v", tt.name, left, tt.after)
		}
	}
}

// TestDecide: changes of several pots follow one another, each with a separate answer. A pot that is not there is
// missing.
func TestDecide(t *testing.T) {
	t.Parallel()
	before := map[pot.ID]pot.Pot{
		1: {ID: 1, MaxCoins: 10, Contents: pot.Contents{pot.Gold: 8}},
		2: {ID: 2, MaxCoins: 10, Contents: pot.Contents{}},
	}
	after, answers := pot.Decide(before, []pot.Change{
		{Pot: 1, Add: pot.Contents{pot.Gold: 3}},
		{Pot: 1, Take: pot.Contents{pot.Gold: 5}},
		{Pot: 2, Add: pot.Contents{pot.Silver: 9}},
		{Pot: 3, Draw: 1},
		{Pot: 1, Add: pot.Contents{pot.Bronze: 7}},
		{Pot: 1, Draw: 11},
	}, rand.NewChaCha8([32]byte{1}))

	want := []pot.Answer{
		{Full: true},
		{Moved: pot.Contents{pot.Gold: 5}},
		{Moved: pot.Contents{pot.Silver: 9}},
		{Missing: true},
		{Moved: pot.Contents{pot.Bronze: 7}},
		{Moved: pot.Contents{pot.Bronze: 7, pot.Gold: 3}},
	}
	if !reflect.DeepEqual(answers, want) {
		t.Errorf("answered %v, want %v", answers, want)
	}
	if len(after) != 2 || after[1].Total() != 0 || after[2].Total() != 9 {
		t.Errorf("afterwards %v", after)
	}
	if before[1].Contents[pot.Gold] != 8 || before[2].Contents.Total() != 0 {
		t.Errorf("the pots of before are changed: %v", before)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		page, size    int32
		total         int64
		limit, offset int64 // that the repository is asked for; a limit of 0 for the total alone
		err           error
	}{
		{1, 0, 10, 25, 0, nil},
		{2, 0, 10, 25, 25, nil},
		{3, 100, 10, 100, 200, nil},
		// The last page that is listed begins after 10^6 pots.
		{10_001, 100, math.MaxInt32, 100, 1_000_000, nil},
		{1_000_002, 1, 1_000_002, 0, 0, pot.ErrOutOfRange},
		{1_000_002, 1, 1_000_001, 0, 0, nil}, // the first page without pots
		{10_002, 100, math.MaxInt32, 0, 0, pot.ErrOutOfRange},
		{math.MaxInt32, 100, math.MaxInt32, 0, 0, nil}, // after 2*10^11: behind any total
	} {
		r := &onePot{total: tt.total, limit: -1, offset: -1}
		_, total, err := pot.NewService(r).List(t.Context(), tt.page, tt.size)
		if !errors.Is(err, tt.err) || err == nil && total != tt.total || r.limit != tt.limit || r.offset != tt.offset {
			t.Errorf("%d after %d, total %d, %v; want %+v", r.limit, r.offset, total, err, tt)
		}
	}
}
