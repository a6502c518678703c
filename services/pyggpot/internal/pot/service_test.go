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

// listed is a repository which keeps the page that was asked for.
type listed struct {
	pot.Repository

	total         int64
	limit, offset int64
}

func (r *listed) List(_ context.Context, limit, offset int64) ([]pot.Pot, int64, error) {
	r.limit, r.offset = limit, offset
	return nil, r.total, nil
}

func contents(bronze, silver, gold int64) pot.Contents {
	return pot.Contents{pot.Bronze: bronze, pot.Silver: silver, pot.Gold: gold}
}

func TestApply(t *testing.T) {
	t.Parallel()
	p := pot.Pot{MaxCoins: 100}
	for _, tt := range []struct {
		name        string
		change      pot.Change
		moved, left pot.Contents
		full        bool
	}{
		{"it fits", pot.Change{Add: contents(50, 0, 3)}, contents(50, 0, 3), contents(50, 0, 3), false},
		{"one too many", pot.Change{Add: contents(8, 40, 0)}, nil, contents(50, 0, 3), true},
		{"far too many", pot.Change{Add: contents(0, 100*math.MaxInt32, 0)}, nil, contents(50, 0, 3), true},
		{"until it is full", pot.Change{Add: contents(0, 47, 0)}, contents(0, 47, 0), contents(50, 47, 3), false},
		{"no more than it has", pot.Change{Take: contents(5, 0, 4)}, contents(5, 0, 3), contents(45, 47, 0), false},
		{"none of the kind", pot.Change{Take: contents(0, 0, 1)}, nil, contents(45, 47, 0), false},
		{
			"kinds first, then the rest",
			pot.Change{Take: contents(45, 0, 0), Draw: 46},
			contents(45, 46, 0), contents(0, 1, 0), false,
		},
		{"more at random than it has", pot.Change{Draw: math.MaxInt32}, contents(0, 1, 0), nil, false},
		{"out of an empty pot", pot.Change{Draw: 1}, nil, nil, false},
	} {
		left, answer := p.Apply(tt.change, rand.NewChaCha8([32]byte{1}))
		p.Contents = left
		if answer.Full != tt.full || !slices.Equal(answer.Moved.List(), tt.moved.List()) {
			t.Errorf("%s: %+v, want %v moved, full %t", tt.name, answer, tt.moved, tt.full)
		}
		if !slices.Equal(left.List(), tt.left.List()) {
			t.Errorf("%s: left %v, want %v", tt.name, left, tt.left)
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
		r := &listed{total: tt.total, limit: -1, offset: -1}
		_, total, err := (&pot.Service{Repository: r}).List(t.Context(), tt.page, tt.size)
		if !errors.Is(err, tt.err) || err == nil && total != tt.total || r.limit != tt.limit || r.offset != tt.offset {
			t.Errorf("%d after %d, total %d, %v; want %+v", r.limit, r.offset, total, err, tt)
		}
	}
}
