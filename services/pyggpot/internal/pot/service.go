package pot

import (
	"cmp"
	"context"
)

// Service serves requests that follow the contract's rules, which the adapter checks. It has no state, so any number of
// replicas may run. Create, Find and FindByName are the repository's.
type Service struct{ Repository }

// NewService returns the domain's service.
func NewService(r Repository) *Service { return &Service{r} }

const (
	// defaultPageSize is the number of pots on a page when the request names none.
	defaultPageSize = 25
	// maxOffset limits the number of pots before a page: the store passes over each of them.
	maxOffset = 1_000_000
)

// List returns a page of pots, in the order of their ids, and the number of all pots. Pages count from 1; a size of 0
// means the default. A page after the last one is empty. A page that has pots and begins after more than maxOffset
// others returns ErrOutOfRange.
func (s *Service) List(ctx context.Context, page, size int32) (pots []Pot, total int64, err error) {
	limit := int64(cmp.Or(size, defaultPageSize))
	offset := (int64(page) - 1) * limit
	if offset <= maxOffset {
		return s.Repository.List(ctx, limit, offset)
	}

	_, total, err = s.Repository.List(ctx, 0, 0) // only the number
	if err == nil && offset < total {
		err = ErrOutOfRange
	}
	return nil, total, err
}

// Add adds coins to a pot and returns them, kinds ascending, each once. After ErrFull, ErrNotFound, ErrLocked or
// ErrTimeOver nothing was changed.
func (s *Service) Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error) {
	return s.change(ctx, Change{Pot: id, Add: Sum(coins)})
}

// Remove removes coins from a pot: of each kind the wanted number or all that the pot has, then count of the others at
// random or all. It returns the removed coins, kinds ascending, each once. After ErrNotFound, ErrLocked or ErrTimeOver
// nothing was changed.
func (s *Service) Remove(ctx context.Context, id ID, wanted []Coins, count int64) ([]Coins, error) {
	return s.change(ctx, Change{Pot: id, Take: Sum(wanted), Draw: count})
}

func (s *Service) change(ctx context.Context, c Change) ([]Coins, error) {
	moved, err := s.Change(ctx, c)
	if err != nil {
		return nil, err
	}
	return moved.List(), nil
}
