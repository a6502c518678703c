package counting

import (
	"context"
	"fmt"
)

// Service implements both inbound ports on a repository. It holds no state of
// its own, so any number of replicas may run.
type Service struct {
	repo CountValueRepository
}

var (
	_ ExternalCountUpdateAPI = (*Service)(nil)
	_ InternalCountValueAPI  = (*Service)(nil)
)

// NewService returns the domain's service on repo.
func NewService(repo CountValueRepository) *Service { return &Service{repo: repo} }

// Increase adds by to the count.
func (s *Service) Increase(ctx context.Context, id ItemID, by Amount) (int64, error) {
	return s.apply(ctx, Change{ItemID: id, Delta: int64(by)})
}

// Decrease subtracts by from the count; a value may become negative.
func (s *Service) Decrease(ctx context.Context, id ItemID, by Amount) (int64, error) {
	return s.apply(ctx, Change{ItemID: id, Delta: -int64(by)})
}

// apply applies one change and returns the value after it.
func (s *Service) apply(ctx context.Context, c Change) (int64, error) {
	r, err := s.repo.Apply(ctx, Update{Changes: []Change{c}})
	if err != nil {
		return 0, err
	}
	return r.Values[0], nil
}

// Reset sets the count to zero.
func (s *Service) Reset(ctx context.Context, id ItemID) (int64, error) {
	v, _, err := s.repo.Set(ctx, Key{}, id, 0)
	return v.Current, err
}

// Initialize creates a count.
func (s *Service) Initialize(ctx context.Context, id ItemID, initial int64) (CountValue, error) {
	return s.repo.Create(ctx, id, initial)
}

// Get returns one count.
func (s *Service) Get(ctx context.Context, id ItemID) (CountValue, error) {
	return s.repo.Find(ctx, id)
}

// GetMany returns several counts in the order asked.
func (s *Service) GetMany(ctx context.Context, ids []ItemID) ([]CountValue, error) {
	if len(ids) == 0 || len(ids) > MaxItemsPerRead {
		return nil, fmt.Errorf("%w: %d were asked for, 1 to %d are allowed", ErrTooManyItems, len(ids), MaxItemsPerRead)
	}
	distinct := make([]ItemID, 0, len(ids))
	seen := make(map[ItemID]bool, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			distinct = append(distinct, id)
		}
	}
	found, err := s.repo.FindMany(ctx, distinct)
	if err != nil {
		return nil, err
	}
	byID := make(map[ItemID]CountValue, len(found))
	for _, v := range found {
		byID[v.ItemID] = v
	}
	ordered := make([]CountValue, 0, len(found))
	for _, id := range distinct {
		if v, ok := byID[id]; ok {
			ordered = append(ordered, v)
		}
	}
	return ordered, nil
}

// Set sets the value of the count.
func (s *Service) Set(ctx context.Context, id ItemID, value int64) (CountValue, error) {
	v, _, err := s.repo.Set(ctx, Key{}, id, value)
	return v, err
}

// Delete deletes the count.
func (s *Service) Delete(ctx context.Context, id ItemID) error {
	return s.repo.Delete(ctx, id)
}
