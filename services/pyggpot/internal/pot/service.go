package pot

import "context"

// Service implements the inbound ports for requests that keep the contract's rules, which the adapter checks. It holds
// no state of its own, so any number of replicas may run.
type Service struct {
	repository Repository
	source     func() Source
}

var (
	_ PotsAPI  = (*Service)(nil)
	_ CoinsAPI = (*Service)(nil)
)

// NewService returns the domain's service. source returns the random source of one removal, such as NewSource.
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
	if page.Offset() <= MaxOffset {
		return s.repository.List(ctx, page.Limit(), page.Offset())
	}
	_, total, err := s.repository.List(ctx, 0, 0) // the number alone
	if err == nil && page.Offset() < total {
		err = ErrOutOfRange
	}
	return nil, total, err
}

// Add implements CoinsAPI.
func (s *Service) Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error) {
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
