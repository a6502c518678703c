package counting

import (
	"context"
	"errors"
	"fmt"
)

// Service implements both inbound ports on a repository. It holds no state of
// its own, so any number of replicas may run.
type Service struct {
	repo     CountValueRepository
	observer Observer
}

var (
	_ ExternalCountUpdateAPI = (*Service)(nil)
	_ InternalCountValueAPI  = (*Service)(nil)
)

// NewService returns the domain's service on repo.
func NewService(repo CountValueRepository, observer Observer) *Service {
	return &Service{repo: repo, observer: observer}
}

// Increase adds by to the count.
func (s *Service) Increase(ctx context.Context, key Key, id ItemID, by Amount) (Result, error) {
	return s.add(ctx, key, Change{ItemID: id, Delta: int64(by)})
}

// Decrease subtracts by from the count; a value may become negative.
func (s *Service) Decrease(ctx context.Context, key Key, id ItemID, by Amount) (Result, error) {
	return s.add(ctx, key, Change{ItemID: id, Delta: -int64(by)})
}

// add applies one change.
func (s *Service) add(ctx context.Context, key Key, c Change) (Result, error) {
	changes := []Change{c}
	return s.apply(ctx, Request{Operation: Add, Key: key.of("add", changes...), Changes: changes})
}

// Reset sets the count to zero.
func (s *Service) Reset(ctx context.Context, key Key, id ItemID) (Result, error) {
	changes := []Change{{ItemID: id}}
	return s.apply(ctx, Request{Operation: Set, Key: key.of("reset", changes...), Changes: changes})
}

// Apply applies all changes of an update or none.
func (s *Service) Apply(ctx context.Context, update Update) (Result, error) {
	if n := len(update.Changes); n == 0 || n > MaxChanges {
		return Result{}, fmt.Errorf("%w: there are %d, 1 to %d are allowed", ErrTooManyChanges, n, MaxChanges)
	}

	operation := "apply"
	if update.Create {
		operation = "create and apply"
	}

	result, err := s.apply(ctx, Request{
		Operation: Add, Key: update.Key.of(operation, update.Changes...), Changes: update.Changes,
		CreateMissing: update.Create,
	})
	if len(update.Changes) == 1 && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrOverflow)) {
		err = &ChangeError{Index: 0, Err: err}
	}
	return result, err
}

// apply makes a change and returns the values after it.
func (s *Service) apply(ctx context.Context, r Request) (Result, error) {
	a, err := s.change(ctx, r)
	return Result{Values: a.Values, Replayed: a.Replayed}, err
}

// change makes a change, and counts replays and conflicts.
func (s *Service) change(ctx context.Context, r Request) (Answer, error) {
	a, err := s.repo.Change(ctx, r)
	switch {
	case a.Replayed:
		s.observer.Replayed()
	case errors.Is(err, ErrKeyConflict):
		s.observer.Conflict()
	}
	return a, err
}

// Initialize creates a count.
func (s *Service) Initialize(ctx context.Context, key Key, id ItemID, initial int64) (CountValue, bool, error) {
	changes := []Change{{ItemID: id, Delta: initial}}
	r := Request{Operation: Create, Key: key.of("create", changes...), Changes: changes}
	a, err := s.change(ctx, r)
	return a.Count(r), a.Replayed, err
}

// Get returns one count.
func (s *Service) Get(ctx context.Context, id ItemID) (CountValue, error) {
	return s.repo.Find(ctx, id)
}

// GetMany returns several counts in the order of the ids.
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

	// The repository returns them in any order.
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

// Page returns a page of counts, and whether there are more.
func (s *Service) Page(ctx context.Context, prefix, after string, limit int) ([]CountValue, bool, error) {
	if limit < 1 || limit > MaxPageSize {
		return nil, false, fmt.Errorf("%w: it must be 1 to %d", ErrInvalidLimit, MaxPageSize)
	}
	page, err := s.repo.Page(ctx, prefix, after, limit+1)
	return page[:min(len(page), limit)], len(page) > limit, err
}

// Set sets the value of the count.
func (s *Service) Set(ctx context.Context, key Key, id ItemID, value int64) (CountValue, bool, error) {
	changes := []Change{{ItemID: id, Delta: value}}
	r := Request{Operation: Set, Key: key.of("set", changes...), Changes: changes}
	a, err := s.change(ctx, r)
	return a.Count(r), a.Replayed, err
}

// Delete deletes the count.
func (s *Service) Delete(ctx context.Context, key Key, id ItemID) (bool, error) {
	changes := []Change{{ItemID: id}}
	a, err := s.change(ctx, Request{Operation: Delete, Key: key.of("delete", changes...), Changes: changes})
	return a.Replayed, err
}
