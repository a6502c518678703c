// Package pottest holds the suite that every repository of pots must pass. Only tests import it.
package pottest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
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

// add returns a change that adds coins to a pot.
func add(id pot.ID, coins pot.Contents) pot.Change { return pot.Change{Pot: id, Add: coins} }

// wantMoved makes a change and checks the moved coins.
func wantMoved(t *testing.T, r pot.Repository, c pot.Change, want pot.Contents) {
	t.Helper()
	moved, err := r.Change(t.Context(), c)
	if err != nil || !slices.Equal(moved.List(), want.List()) {
		t.Errorf("%+v moved %v, want %v (%v)", c, moved.List(), want.List(), err)
	}
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
	_, err = r.Change(t.Context(), add(math.MaxInt32, pot.Contents{pot.Gold: 1}))
	wantErr(t, err, pot.ErrNotFound)
}

func pages(t *testing.T, r pot.Repository) {
	if list, total, err := r.List(t.Context(), 10, 0); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("without a pot: %v of %d (%v)", list, total, err)
	}

	ids := make([]pot.ID, pots)
	for i := range ids {
		ids[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", pots-i), 10).ID
		silver := pot.Contents{pot.Silver: 3}
		wantMoved(t, r, add(ids[i], silver), silver)
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

// change: counts up to the largest are stored, and each change returns the moved coins.
func change(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", math.MaxInt32)
	all := pot.Contents{pot.Gold: math.MaxInt32}
	wantMoved(t, r, add(p.ID, all), all)
	wantMoved(t, r, pot.Change{Pot: p.ID, Take: all}, all)
	wantMoved(t, r, pot.Change{Pot: p.ID, Take: all, Draw: 5}, nil)

	mixed := pot.Contents{pot.Bronze: 9, pot.Gold: 7}
	wantMoved(t, r, add(p.ID, mixed), mixed)
	wantMoved(t, r, pot.Change{Pot: p.ID, Take: pot.Contents{pot.Silver: 1, pot.Gold: 5}}, pot.Contents{pot.Gold: 5})
	both := pot.Change{Pot: p.ID, Take: pot.Contents{pot.Gold: 9}, Draw: 3}
	wantMoved(t, r, both, pot.Contents{pot.Bronze: 3, pot.Gold: 2})
	wantCoins(t, r, p.ID, pot.Contents{pot.Bronze: 6})
	wantMoved(t, r, pot.Change{Pot: p.ID, Draw: math.MaxInt32}, pot.Contents{pot.Bronze: 6})
	wantCoins(t, r, p.ID, nil)
}

// refusedChange: coins that do not fit are refused, nothing is stored, and the pot is free again.
func refusedChange(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	for range 3 {
		_, err := r.Change(t.Context(), add(p.ID, pot.Contents{pot.Gold: 11}))
		wantErr(t, err, pot.ErrFull)
	}
	wantCoins(t, r, p.ID, nil)
	wantMoved(t, r, add(p.ID, pot.Contents{pot.Gold: 1}), pot.Contents{pot.Gold: 1})
}

// endedContext: a change whose context has ended is not made, and leaves the pot free.
func endedContext(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Change(ctx, add(p.ID, pot.Contents{pot.Gold: 1}))
	wantErr(t, err, pot.ErrTimeOver)
	wantMoved(t, r, add(p.ID, pot.Contents{pot.Silver: 1}), pot.Contents{pot.Silver: 1})
	wantCoins(t, r, p.ID, pot.Contents{pot.Silver: 1})
}

// oneName: of many callers that create a pot with one name, one succeeds.
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

// onePot: callers change a pot one after the other: exactly as many coins are added as fit, and all of them are removed
// again.
func onePot(t *testing.T, r pot.Repository) {
	const callers, times, fit = 60, 4, 200
	p := mustCreate(t, r, "pot", fit)
	gold := pot.Contents{pot.Gold: 1}
	var added, full, removed atomic.Int64
	waittest.Together(t, callers, func(int) error {
		for range times {
			switch _, err := r.Change(t.Context(), add(p.ID, gold)); {
			case err == nil:
				added.Add(1)
			case errors.Is(err, pot.ErrFull):
				full.Add(1)
			default:
				return err
			}
		}
		return nil
	})
	if added.Load() != fit || full.Load() != callers*times-fit {
		t.Errorf("%d coins were added and %d refused, %d fit", added.Load(), full.Load(), fit)
	}
	wantCoins(t, r, p.ID, pot.Contents{pot.Gold: fit})

	waittest.Together(t, callers, func(int) error {
		for range times {
			moved, err := r.Change(t.Context(), pot.Change{Pot: p.ID, Draw: 1})
			if err != nil {
				return err
			}
			removed.Add(moved.Total())
		}
		return nil
	})
	if removed.Load() != fit {
		t.Errorf("%d coins were removed of %d", removed.Load(), fit)
	}
	wantCoins(t, r, p.ID, nil)
}

// severalPots: many callers change many pots, and all changes are made except the refused ones.
func severalPots(t *testing.T, r pot.Repository) {
	ids := make([]pot.ID, 40)
	for i := range ids {
		ids[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", i), 1000).ID
	}

	waittest.Together(t, 2*len(ids), func(i int) (err error) {
		for j := range 4 {
			id := ids[(i+j*j)%len(ids)]
			if j == i%4 {
				_, refused := r.Change(t.Context(), add(id, pot.Contents{pot.Silver: 1001}))
				if !errors.Is(refused, pot.ErrFull) {
					err = errors.Join(err, fmt.Errorf("a refused change returned %w", refused))
				}
			}
			_, made := r.Change(t.Context(), add(id, pot.Contents{pot.Gold: 1, pot.Bronze: 2}))
			err = errors.Join(err, made)
		}
		return err
	})

	for _, id := range ids {
		wantCoins(t, r, id, pot.Contents{pot.Gold: 8, pot.Bronze: 16})
	}
}

// readers see a pot before or after a change, never in between.
func readers(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 1000)

	waittest.Together(t, 8, func(i int) error {
		for range 20 {
			if i < 2 {
				if _, err := r.Change(t.Context(), add(p.ID, pot.Contents{pot.Bronze: 1, pot.Gold: 1})); err != nil {
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
