package pottest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Exercise holds a repository against its port. open returns a repository of its
// own, empty, for each test.
func Exercise(t *testing.T, open func(t *testing.T) pot.Repository) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, pot.Repository){
		"contract/create and find":        createAndFind,
		"contract/pages":                  pages,
		"contract/change":                 change,
		"contract/the most coins":         most,
		"contract/kinds left out stay":    leftOutStay,
		"transactions/error stores none":  errorStoresNothing,
		"transactions/ended context":      endedContext,
		"contention/one name":             oneName,
		"contention/one pot":              onePot,
		"contention/readers see all":      readersSeeWholeChanges,
		"contention/pots do not disturb":  manyPots,
		"contention/failing and the rest": failingAmongOthers,
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

// set makes the change that puts so many coins of a kind into the pot, no matter what is there.
func set(kind pot.Kind, n int64) func(pot.Pot) (pot.Contents, error) {
	return func(p pot.Pot) (pot.Contents, error) {
		after := p.Contents.Plus(nil)
		after[kind] = n
		return after, nil
	}
}

// add puts one coin in.
func add(kind pot.Kind) func(pot.Pot) (pot.Contents, error) {
	return func(p pot.Pot) (pot.Contents, error) { return p.Contents.Plus(pot.Contents{kind: 1}), nil }
}

func wantCoins(t *testing.T, r pot.Repository, id pot.ID, want ...pot.Coins) {
	t.Helper()
	p, err := r.Find(t.Context(), id)
	if got := p.Contents.List(); err != nil || !slices.Equal(got, want) {
		t.Errorf("pot %d has %v, want %v (%v)", id, got, want, err)
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
		t.Errorf("made %+v", p)
	}
	other := mustCreate(t, r, "piggy bank", math.MaxInt32)
	if other.ID == p.ID {
		t.Error("two pots have one id")
	}
	_, err := r.Create(t.Context(), "Piggy bank", 7)
	wantErr(t, err, pot.ErrExists)
	byID, err := r.Find(t.Context(), p.ID)
	if err != nil || byID.Name != p.Name || byID.MaxCoins != 100 || !byID.CreateTime.Equal(p.CreateTime) {
		t.Errorf("found %+v (%v), made %+v", byID, err, p)
	}
	byName, err := r.FindByName(t.Context(), "piggy bank")
	if err != nil || byName.ID != other.ID {
		t.Errorf("found %+v (%v), made %+v", byName, err, other)
	}
	_, err = r.Find(t.Context(), math.MaxInt32)
	wantErr(t, err, pot.ErrNotFound)
	_, err = r.FindByName(t.Context(), "Nobody")
	wantErr(t, err, pot.ErrNotFound)
	wantErr(t, r.Change(t.Context(), math.MaxInt32, add(pot.Gold)), pot.ErrNotFound)
}

func pages(t *testing.T, r pot.Repository) {
	if list, total, err := r.List(t.Context(), 10, 0); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("without a pot: %v of %d (%v)", list, total, err)
	}
	made := make([]pot.ID, pots)
	for i := range made {
		made[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", pots-i), 10).ID
	}
	if err := r.Change(t.Context(), made[1], set(pot.Silver, 3)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		limit, offset int64
		want          []pot.ID
	}{
		{3, 0, made[:3]},
		{3, 3, made[3:6]},
		{3, 6, made[6:]},
		{3, 9, nil},
		{100, 0, made},
		{100, math.MaxInt32 * 100, nil},
	} {
		list, total, err := r.List(t.Context(), tt.limit, tt.offset)
		var ids []pot.ID
		for _, p := range list {
			ids = append(ids, p.ID)
		}
		if err != nil || total != pots || !slices.Equal(ids, tt.want) {
			t.Errorf("%d after %d: %v of %d (%v), want %v", tt.limit, tt.offset, ids, total, err, tt.want)
		}
		for _, p := range list {
			if p.ID == made[1] && p.Contents[pot.Silver] != 3 {
				t.Errorf("the pot with coins is listed as %+v", p)
			}
		}
	}
}

func change(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 100)
	for _, step := range []func(pot.Pot) (pot.Contents, error){
		set(pot.Gold, 5), set(pot.Bronze, 7), set(pot.Gold, 0), set(pot.Gold, 2), set(pot.Gold, 2),
	} {
		if err := r.Change(t.Context(), p.ID, step); err != nil {
			t.Fatal(err)
		}
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Bronze, Count: 7}, pot.Coins{Kind: pot.Gold, Count: 2})
	var seen pot.Pot
	if err := r.Change(t.Context(), p.ID, func(p pot.Pot) (pot.Contents, error) { seen = p; return p.Contents, nil }); err != nil {
		t.Fatal(err)
	}
	if seen.ID != p.ID || seen.Name != "pot" || seen.MaxCoins != 100 || seen.Contents.Total() != 9 {
		t.Errorf("a change was given %+v", seen)
	}
}

func leftOutStay(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 12)
	for _, after := range []pot.Contents{{pot.Bronze: 10}, {pot.Gold: 1}, {}, {pot.Silver: 1}} {
		if err := r.Change(t.Context(), p.ID, func(pot.Pot) (pot.Contents, error) { return after, nil }); err != nil {
			t.Fatal(err)
		}
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Bronze, Count: 10}, pot.Coins{Kind: pot.Silver, Count: 1}, pot.Coins{Kind: pot.Gold, Count: 1})
}

func most(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", math.MaxInt32)
	if err := r.Change(t.Context(), p.ID, set(pot.Gold, math.MaxInt32)); err != nil {
		t.Fatal(err)
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Gold, Count: math.MaxInt32})
}

func errorStoresNothing(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	if err := r.Change(t.Context(), p.ID, set(pot.Gold, 5)); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("no")
	for range 3 {
		err := r.Change(t.Context(), p.ID, func(pot.Pot) (pot.Contents, error) { return pot.Contents{pot.Gold: 9}, refusal })
		wantErr(t, err, refusal)
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Gold, Count: 5})
	if err := r.Change(t.Context(), p.ID, add(pot.Gold)); err != nil { // and the pot is free
		t.Error(err)
	}
}

func endedContext(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Change(ctx, p.ID, add(pot.Gold)); err == nil {
		t.Error("changed for somebody who had left")
	}
	ctx, cancel = context.WithCancel(t.Context())
	if err := r.Change(ctx, p.ID, func(p pot.Pot) (pot.Contents, error) {
		cancel() // in the middle of it: done or not, but not half
		return p.Contents.Plus(pot.Contents{pot.Gold: 1, pot.Bronze: 1}), nil
	}); err == nil {
		wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Bronze, Count: 1}, pot.Coins{Kind: pot.Gold, Count: 1})
	} else {
		wantCoins(t, r, p.ID)
	}
	if err := r.Change(t.Context(), p.ID, set(pot.Silver, 1)); err != nil {
		t.Errorf("the pot is not free: %v", err)
	}
}

func oneName(t *testing.T, r pot.Repository) {
	const callers = 16
	made := make([]error, callers)
	winners := 0
	_ = waittest.Together(callers, func(i int) error {
		_, made[i] = r.Create(t.Context(), "pot", 10)
		return made[i]
	})
	for _, err := range made {
		if err == nil {
			winners++
		} else {
			wantErr(t, err, pot.ErrExists)
		}
	}
	if _, total, err := r.List(t.Context(), 1, 0); winners != 1 || total != 1 || err != nil {
		t.Errorf("%d made the pot, there are %d (%v)", winners, total, err)
	}
}

func onePot(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 1000)
	const callers = 40
	kinds := []pot.Kind{pot.Bronze, pot.Silver, pot.Gold}
	if err := waittest.Together(callers, func(i int) (err error) {
		for j := range 3 {
			err = errors.Join(err, r.Change(t.Context(), p.ID, add(kinds[(i+j)%3])))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Bronze, Count: 40}, pot.Coins{Kind: pot.Silver, Count: 40}, pot.Coins{Kind: pot.Gold, Count: 40})
}

func readersSeeWholeChanges(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 1000)
	pair := func(p pot.Pot) (pot.Contents, error) {
		return p.Contents.Plus(pot.Contents{pot.Bronze: 1, pot.Gold: 1}), nil
	}
	if err := waittest.Together(8, func(i int) error {
		for range 20 {
			if i < 2 {
				if err := r.Change(t.Context(), p.ID, pair); err != nil {
					return err
				}
				continue
			}
			seen, err := r.Find(t.Context(), p.ID)
			list, _, listErr := r.List(t.Context(), 1, 0)
			if err != nil || listErr != nil || seen.Contents[pot.Bronze] != seen.Contents[pot.Gold] ||
				list[0].Contents[pot.Bronze] != list[0].Contents[pot.Gold] {
				return fmt.Errorf("a reader saw half a change: %v, %v (%w)", seen, list, errors.Join(err, listErr))
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func manyPots(t *testing.T, r pot.Repository) {
	var ids [pots]pot.ID
	for i := range ids {
		ids[i] = mustCreate(t, r, fmt.Sprintf("pot-%d", i), 100).ID
	}
	if err := waittest.Together(pots*4, func(i int) (err error) {
		for range 3 {
			err = errors.Join(err, r.Change(t.Context(), ids[i%pots], add(pot.Silver)))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		wantCoins(t, r, id, pot.Coins{Kind: pot.Silver, Count: 12})
	}
}

func failingAmongOthers(t *testing.T, r pot.Repository) {
	p := mustCreate(t, r, "pot", 100)
	refusal := errors.New("no")
	if err := waittest.Together(20, func(i int) error {
		if i%2 == 1 {
			return r.Change(t.Context(), p.ID, add(pot.Gold))
		}
		err := r.Change(t.Context(), p.ID, func(pot.Pot) (pot.Contents, error) { return nil, refusal })
		if !errors.Is(err, refusal) {
			return fmt.Errorf("a refused change answered %w, want %w", err, refusal)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	wantCoins(t, r, p.ID, pot.Coins{Kind: pot.Gold, Count: 10})
}
