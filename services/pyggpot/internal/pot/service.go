package pot

import "context"

// Service implements the inbound ports for requests that follow the contract's rules, which the adapter checks. It has
// no state, so any number of replicas may run.
type Service struct{ repository Repository }

var (
	_ PotsAPI  = (*Service)(nil)
	_ CoinsAPI = (*Service)(nil)
)

// NewService returns the domain's service.
func NewService(r Repository) *Service { return &Service{r} }

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

	_, total, err := s.repository.List(ctx, 0, 0) // only the number
	if err == nil && page.Offset() < total {
		err = ErrOutOfRange
	}
	return nil, total, err
}

// Add implements CoinsAPI.
func (s *Service) Add(ctx context.Context, id ID, coins []Coins) ([]Coins, error) {
	return s.change(ctx, Change{Pot: id, Add: Sum(coins)})
}

// Remove implements CoinsAPI.
func (s *Service) Remove(ctx context.Context, id ID, wanted []Coins, count int64) ([]Coins, error) {
	return s.change(ctx, Change{Pot: id, Take: Sum(wanted), Draw: count})
}

func (s *Service) change(ctx context.Context, c Change) ([]Coins, error) {
	moved, err := s.repository.Change(ctx, c)
	if err != nil {
		return nil, err
	}
	return moved.List(), nil
}
