package pot

import (
	"context"
	"fmt"
)

// Service implements the inbound ports. It holds no state of its own, so any
// number of replicas may run.
type Service struct {
	repository Repository
	source     func() Source
}

var (
	_ PotsAPI  = (*Service)(nil)
	_ CoinsAPI = (*Service)(nil)
)

// NewService returns the domain's service. source makes what coins are drawn by,
// one for each removal: NewSource where it matters.
func NewService(r Repository, source func() Source) *Service { return &Service{r, source} }

// Create implements PotsAPI.
func (s *Service) Create(ctx context.Context, name string, maxCoins int32) (Pot, error) {
	return s.repository.Create(ctx, name, maxCoins)
}

// View implements PotsAPI.
func (s *Service) View(ctx context.Context, id ID) (Pot, error) { return s.repository.Find(ctx, id) }

// ViewByName implements PotsAPI.
func (s *Service) ViewByName(ctx context.Context, name string) (Pot, error) {
	return s.repository.FindByName(ctx, name)
}

// List implements PotsAPI.
func (s *Service) List(ctx context.Context, page Page) ([]Pot, int64, error) {
	if page.Number < 1 || page.Size < 0 || page.Size > MaxPageSize {
		return nil, 0, fmt.Errorf("%w: page %d of size %d", ErrInvalid, page.Number, page.Size)
	}
	return s.repository.List(ctx, page.Limit(), page.Offset())
}

// Add implements CoinsAPI.
func (s *Service) Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error) {
	if err := check(coins); err != nil {
		return nil, err
	}
	if len(coins) == 0 {
		return nil, fmt.Errorf("%w: no coins", ErrInvalid)
	}
	added := Sum(coins)
	err := s.repository.Change(ctx, id, func(p Pot) (Contents, error) {
		if p.Contents.Total()+added.Total() > int64(p.MaxCoins) {
			return nil, ErrFull
		}
		return p.Contents.Plus(added), nil
	})
	if err != nil {
		return nil, err
	}
	return added.List(), nil
}

// Remove implements CoinsAPI.
func (s *Service) Remove(ctx context.Context, id ID, wanted []Coins, count int64) ([]Coins, error) {
	if err := check(wanted); err != nil {
		return nil, err
	}
	if count < 0 || count == 0 && len(wanted) == 0 {
		return nil, fmt.Errorf("%w: a count of %d", ErrInvalid, count)
	}
	var removed Contents
	err := s.repository.Change(ctx, id, func(p Pot) (Contents, error) {
		removed = p.Contents.AtMost(Sum(wanted))
		left := p.Contents.Less(removed)
		if count > 0 {
			drawn := left.Random(count, s.source())
			removed, left = removed.Plus(drawn), left.Less(drawn)
		}
		return left, nil
	})
	if err != nil {
		return nil, err
	}
	return removed.List(), nil
}

// check refuses what a contract lets nobody send.
func check(coins []Coins) error {
	for _, c := range coins {
		if !c.Kind.Valid() || c.Count < 1 {
			return fmt.Errorf("%w: %s", ErrInvalid, c)
		}
	}
	return nil
}
