package pottest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Exercise tests a repository. open returns an empty repository for each test.
func Exercise(t *testing.T, open func(t *testing.T) pot.Repository) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, pot.Repository){
		"contract/create and find":      createAndFind,
		"contract/pages":                pages,
		"contract/change":               change,
		"transactions/a refused change": refusedChange,
		"transactions/ended context":    endedContext,
		"contention/one name":           oneName,
		"contention/one pot":            onePot,
		"contention/several pots":       severalPots,
		"contention/readers":            readers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

const pots = 7

func mustCreate(t *testing.T, r pot.Repository, name string, maxCoins int32) pot.Pot {
	t.Helper()
	p, err := r.Create(t.Context(), name, maxCoins)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// set returns a change that sets the counts of some kinds.
func set(kinds pot.Contents) func(pot.Pot) (pot.Contents, error) {
	return func(pot.Pot) (pot.Contents, error) { return kinds, nil }
}

// add returns a change that adds coins.
func add(coins pot.Contents) func(pot.Pot) (pot.Contents, error) {
	return func(p pot.Pot) (pot.Contents, error) { return p.Contents.Plus(coins), nil }
}

func wantCoins(t *testing.T, r pot.Repository, id pot.ID, want pot.Contents) {
	t.Helper()
	p, err := r.Find(t.Context(), id)
	if got := p.Contents.List(); err != nil || !slices.Equal(got, want.List()) {
		t.Errorf("pot %d has %v, want %v (%v)", id, got, want.List(), err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func createAndFind(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "Piggy bank", 100)
	if p.ID < 1 || p.Name != "Piggy bank" || p.MaxCoins != 100 || p.CreateTime.IsZero() || len(p.Contents.List()) != 0 {
		t.Errorf("created %+v", p)
	}
	other := mustCreate(t, r, "piggy bank", math.MaxInt32)
	if other.ID == p.ID {
		t.Error("two pots have one id")
	}
	_, err := r.Create(t.Context(), "Piggy bank", 7)
	wantErr(t, err, pot.ErrExists)
	byID, err := r.Find(t.Context(), p.ID)
	if err != nil || byID.Name != p.Name || byID.MaxCoins != 100 || !byID.CreateTime.Equal(p.CreateTime) {
		t.Errorf("found %+v (%v), created %+v", byID, err, p)
	}
	byName, err := r.FindByName(t.Context(), "piggy bank")
	if err != nil || byName.ID != other.ID {
		t.Errorf("found %+v (%v), created %+v", byName, err, other)
	}
	_, err = r.Find(t.Context(), math.MaxInt32)
	wantErr(t, err, pot.ErrNotFound)
	_, err = r.FindByName(t.Context(), "No such pot")
	wantErr(t, err, pot.ErrNotFound)
	wantErr(t, r.Change(t.Context(), math.MaxInt32, add(nil)), pot.ErrNotFound)
}

func pages(t *testing.T, r pot.Repository) {
	if list, total, err := r.List(t.Context(), 10, 0); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("without a pot: %v of %d (%v)", list, total, err)
	}
	ids := make([]pot.ID, pots)
	for i := range ids {
		ids[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", pots-i), 10).ID
		wantErr(t, r.Change(t.Context(), ids[i], set(pot.Contents{pot.Silver: 3})), nil)
	}
	for _, tt := range []struct {
		limit, offset int64
		want          []pot.ID
	}{
		{3, 0, ids[:3]},
		{3, 6, ids[6:]},
		{3, 9, nil},
		{100, 0, ids},
		{100, math.MaxInt32 * 100, nil},
	} {
		list, total, err := r.List(t.Context(), tt.limit, tt.offset)
		var got []pot.ID
		for _, p := range list {
			got = append(got, p.ID)
			if p.Contents[pot.Silver] != 3 {
				t.Errorf("pot %d is listed as %+v", p.ID, p)
			}
		}
		if err != nil || total != pots || !slices.Equal(got, tt.want) {
			t.Errorf("%d after %d: %v of %d (%v), want %v", tt.limit, tt.offset, got, total, err, tt.want)
		}
	}
}

// change stores counts up to the largest; a kind that the change leaves out keeps its coins.
func change(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", math.MaxInt32)
	for _, kinds := range []pot.Contents{
		{pot.Gold: math.MaxInt32}, {pot.Gold: 5}, {pot.Bronze: 7}, {pot.Gold: 0}, {}, {pot.Gold: 2, pot.Silver: 1},
	} {
		wantErr(t, r.Change(t.Context(), p.ID, set(kinds)), nil)
	}
	wantCoins(t, r, p.ID, pot.Contents{pot.Bronze: 7, pot.Silver: 1, pot.Gold: 2})
	var seen pot.Pot
	wantErr(t, r.Change(t.Context(), p.ID, func(p pot.Pot) (pot.Contents, error) {
		seen = p
		return p.Contents, nil
	}), nil)
	if seen.ID != p.ID || seen.MaxCoins != math.MaxInt32 || seen.Contents.Total() != 10 {
		t.Errorf("a change was given %+v", seen)
	}
}

// refusedChange: an error of the change is returned and stores nothing, and the pot is free again.
func refusedChange(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	refusal := errors.New("no")
	for range 3 {
		wantErr(t, r.Change(t.Context(), p.ID, func(pot.Pot) (pot.Contents, error) {
			return pot.Contents{pot.Gold: 9}, refusal
		}), refusal)
	}
	wantCoins(t, r, p.ID, nil)
	wantErr(t, r.Change(t.Context(), p.ID, add(pot.Contents{pot.Gold: 1})), nil)
}

// endedContext: a context that has ended changes nothing; one that ends within the change leaves all of it or nothing.
func endedContext(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Change(ctx, p.ID, add(pot.Contents{pot.Gold: 1})); err == nil {
		t.Error("changed for an ended context")
	}
	ctx, cancel = context.WithCancel(t.Context())
	both := pot.Contents{pot.Gold: 1, pot.Bronze: 1}
	err := r.Change(ctx, p.ID, func(p pot.Pot) (pot.Contents, error) {
		cancel()
		return p.Contents.Plus(both), nil
	})
	var seen pot.Contents
	if err := r.Change(t.Context(), p.ID, func(p pot.Pot) (pot.Contents, error) {
		seen = p.Contents
		return pot.Contents{pot.Silver: 1}, nil
	}); err != nil {
		t.Errorf("the pot is not free: %v", err)
	}
	if !slices.Equal(seen.List(), both.List()) && (err == nil || len(seen) > 0) {
		t.Errorf("the change returned %v and left %v", err, seen)
	}
}

// oneName: of many callers that create a pot of one name one succeeds.
func oneName(t *testing.T, r pot.Repository) {
	var winners atomic.Int64
	waittest.Together(t, 16, func(int) error {
		_, err := r.Create(t.Context(), "pot", 10)
		if err == nil {
			winners.Add(1)
		} else if !errors.Is(err, pot.ErrExists) {
			return err
		}
		return nil
	})
	if _, total, err := r.List(t.Context(), 1, 0); winners.Load() != 1 || total != 1 || err != nil {
		t.Errorf("%d created the pot, there are %d (%v)", winners.Load(), total, err)
	}
}

// onePot: callers of one pot change it one after the other: each sees the pot as one other left it.
func onePot(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 1000)
	const callers, times = 60, 4
	saw := make([]int64, callers*times)
	waittest.Together(t, callers, func(i int) (err error) {
		for j := range times {
			err = errors.Join(err, r.Change(t.Context(), p.ID, func(p pot.Pot) (pot.Contents, error) {
				saw[times*i+j] = p.Contents.Total()
				return p.Contents.Plus(pot.Contents{pot.Gold: 1}), nil
			}))
		}
		return err
	})
	slices.Sort(saw)
	for n, total := range saw {
		if total != int64(n) {
			t.Fatalf("the callers saw %v", saw)
		}
	}
	wantCoins(t, r, p.ID, pot.Contents{pot.Gold: callers * times})
}

// severalPots: many callers change many pots; all changes are made but those that are refused.
func severalPots(t *testing.T, r pot.Repository) {
	ids := make([]pot.ID, 40)
	for i := range ids {
		ids[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", i), 1000).ID
	}
	refusal := errors.New("no")
	waittest.Together(t, 2*len(ids), func(i int) (err error) {
		for j := range 4 {
			id := ids[(i+j*j)%len(ids)]
			if j == i%4 {
				refused := r.Change(t.Context(), id, func(pot.Pot) (pot.Contents, error) { return nil, refusal })
				if !errors.Is(refused, refusal) {
					err = errors.Join(err, fmt.Errorf("a refused change returned %w", refused))
				}
			}
			err = errors.Join(err, r.Change(t.Context(), id, add(pot.Contents{pot.Gold: 1, pot.Bronze: 2})))
		}
		return err
	})
	for _, id := range ids {
		wantCoins(t, r, id, pot.Contents{pot.Gold: 8, pot.Bronze: 16})
	}
}

// readers see a pot before or after a change, never within.
func readers(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 1000)
	waittest.Together(t, 8, func(i int) error {
		for range 20 {
			if i < 2 {
				if err := r.Change(t.Context(), p.ID, add(pot.Contents{pot.Bronze: 1, pot.Gold: 1})); err != nil {
					return err
				}
				continue
			}
			seen, err := r.Find(t.Context(), p.ID)
			list, _, listErr := r.List(t.Context(), 1, 0)
			if err := errors.Join(err, listErr); err != nil {
				return err
			}
			for _, c := range []pot.Contents{seen.Contents, list[0].Contents} {
				if c[pot.Bronze] != c[pot.Gold] {
					return fmt.Errorf("a reader saw half a change: %v", c)
				}
			}
		}
		return nil
	})
}
