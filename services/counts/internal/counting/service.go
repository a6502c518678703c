package counting

import (
	"context"
	"errors"
	"fmt"
)

// Service changes and reads the counts of a repository. It holds no state, so any number of replicas may run. All of
// its fields are required.
//
// A change returns ErrKeyConflict for a key that belongs to another request, and ErrNotFound for an absent id. The
// caller leaves the fingerprint of the key empty.
type Service struct {
	Repository CountValueRepository
	// Replayed is called for each stored answer that is returned again.
	Replayed func()
	// Conflict is called for each ErrKeyConflict.
	Conflict func()
}

// Increase adds by, at least 1, to the count. It returns ErrOverflow if the value would leave the range of int64.
func (s *Service) Increase(ctx context.Context, key Key, id ItemID, by int64) (Answer, error) {
	return s.add(ctx, key, id, by, by)
}

// Decrease subtracts by, at least 1, from the count; a value may become negative. It returns ErrOverflow if the value
// would leave the range of int64.
func (s *Service) Decrease(ctx context.Context, key Key, id ItemID, by int64) (Answer, error) {
	return s.add(ctx, key, id, by, -by)
}

func (s *Service) add(ctx context.Context, key Key, id ItemID, amount, delta int64) (Answer, error) {
	if amount < 1 {
		return Answer{}, fmt.Errorf("%w: it must be at least 1", ErrInvalidAmount)
	}
	return s.one(ctx, "add", Add, key, Change{ItemID: id, Delta: delta})
}

// Reset sets the count to zero.
func (s *Service) Reset(ctx context.Context, key Key, id ItemID) (Answer, error) {
	return s.one(ctx, "reset", Set, key, Change{ItemID: id})
}

// Initialize creates the count, or returns ErrExists.
func (s *Service) Initialize(ctx context.Context, key Key, id ItemID, initial int64) (Answer, error) {
	return s.one(ctx, "create", Create, key, Change{ItemID: id, Delta: initial})
}

// Set sets the value of the count.
func (s *Service) Set(ctx context.Context, key Key, id ItemID, value int64) (Answer, error) {
	return s.one(ctx, "set", Set, key, Change{ItemID: id, Delta: value})
}

// Delete deletes the count.
func (s *Service) Delete(ctx context.Context, key Key, id ItemID) (Answer, error) {
	return s.one(ctx, "delete", Delete, key, Change{ItemID: id})
}

// one makes a change of one count. The name of a request is part of its fingerprint.
func (s *Service) one(ctx context.Context, name string, operation Operation, key Key, c Change) (Answer, error) {
	return s.change(ctx, name, Request{Operation: operation, Key: key, Changes: []Change{c}})
}

// Apply adds all changes of a request, or none. A refusal is a *ChangeError, or ErrTooManyChanges.
func (s *Service) Apply(ctx context.Context, r Request) (Answer, error) {
	if n := len(r.Changes); n == 0 || n > MaxChanges {
		return Answer{}, fmt.Errorf("%w: there are %d, 1 to %d are allowed", ErrTooManyChanges, n, MaxChanges)
	}

	name := "apply"
	if r.CreateMissing {
		name = "create and apply"
	}
	a, err := s.change(ctx, name, r)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrOverflow) {
		err = &ChangeError{Index: a.Index, Err: err}
	}
	return a, err
}

// change makes a change, and counts replays and conflicts.
func (s *Service) change(ctx context.Context, name string, r Request) (Answer, error) {
	r.Key = r.Key.of(name, r.Changes...)
	a, err := s.Repository.Change(ctx, r)
	switch {
	case a.Replayed:
		s.Replayed()
	case errors.Is(err, ErrKeyConflict):
		s.Conflict()
	}
	return a, err
}

// Get returns one count, or ErrNotFound.
func (s *Service) Get(ctx context.Context, id ItemID) (CountValue, error) {
	return s.Repository.Find(ctx, id)
}

// GetMany returns the counts of 1 to MaxItemsPerRead ids in the order of the ids, each once, without absent ones. It
// returns ErrTooManyItems for any other number of ids.
func (s *Service) GetMany(ctx context.Context, ids []ItemID) ([]CountValue, error) {
	if len(ids) == 0 || len(ids) > MaxItemsPerRead {
		return nil, fmt.Errorf("%w: %d were asked for, 1 to %d are allowed", ErrTooManyItems, len(ids), MaxItemsPerRead)
	}

	found, err := s.Repository.FindMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[ItemID]CountValue, len(found))
	for _, v := range found {
		byID[v.ItemID] = v
	}

	ordered := make([]CountValue, 0, len(byID))
	for _, id := range ids {
		if v, ok := byID[id]; ok {
			ordered = append(ordered, v)
			delete(byID, id) // a repeated id is answered once
		}
	}
	return ordered, nil
}

// Page returns the first limit counts, in byte order of their ids, whose id begins with prefix and is greater than
// after, and whether there are more. It returns ErrInvalidLimit unless limit is 1 to MaxPageSize. Each page is a
// separate snapshot.
func (s *Service) Page(ctx context.Context, prefix, after string, limit int) ([]CountValue, bool, error) {
	if limit < 1 || limit > MaxPageSize {
		return nil, false, fmt.Errorf("%w: it must be 1 to %d", ErrInvalidLimit, MaxPageSize)
	}
	page, err := s.Repository.Page(ctx, prefix, after, limit+1)
	return page[:min(len(page), limit)], len(page) > limit, err
}
