package attempt

import (
	"context"
	"errors"
	"io"
	"math"
	"time"
)

// Service implements the inbound port on a repository. It holds no state of its
// own, so any number of replicas may run.
type Service struct {
	Repository
}

var _ Lists = (*Service)(nil)

// NewService returns the domain's service on repo.
func NewService(repo Repository) *Service { return &Service{repo} }

// Batch changes all items of a source or none. One that is short is read whole
// before anything is sent to the database; a longer one goes there part by part.
func (s *Service) Batch(ctx context.Context, change Change, list List, source Source, claim Claim) (int64, error) {
	var items Items
	ended, err := read(source, &items, forEver)
	switch {
	case err != nil:
		return 0, err
	case ended && items.Len() == 0:
		return 0, nil
	case ended:
		return s.Many(ctx, change, list, &items, claim)
	}
	first := true
	return s.Stage(ctx, change, list, func() (*Items, error) {
		if first {
			first = false
			return &items, nil
		}
		if ended {
			return nil, io.EOF
		}
		items.Reset()
		if ended, err = read(source, &items, partTime); err != nil {
			return nil, err
		}
		if items.Len() == 0 {
			return nil, io.EOF
		}
		return &items, nil
	}, claim)
}

const (
	// partTime is when a part of a long batch is handed on as it is: the repository
	// must not take a slow source for a dead one.
	partTime = time.Second
	forEver  = time.Duration(math.MaxInt64)
)

// read appends items until the source ends, they are more than a batch in memory
// may have, or the time is over.
func read(source Source, items *Items, limit time.Duration) (ended bool, err error) {
	begin := time.Now()
	for items.Len() <= MaxBatch && items.Size() <= MaxBatchBytes && (items.Len() == 0 || time.Since(begin) < limit) {
		item, err := source.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		items.Add(item)
	}
	return false, nil
}

// Page returns one page of the list.
func (s *Service) Page(ctx context.Context, list List, after string, count int) ([]Entry, error) {
	switch {
	case count < 0 || count > MaxPage:
		return nil, invalid(ErrInvalidCount, "it must be 0 to %d", MaxPage)
	case count == 0:
		return nil, nil
	}
	return s.Repository.Page(ctx, list, after, count)
}

// Claim takes free items.
func (s *Service) Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error) {
	if count < 1 || count > MaxPage {
		return Lease{}, invalid(ErrInvalidCount, "it must be 1 to %d", MaxPage)
	}
	if err := checkLease(lease); err != nil {
		return Lease{}, err
	}
	return s.Repository.Claim(ctx, list, count, lease)
}

// Extend gives what the claim still holds a new lease.
func (s *Service) Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error) {
	if err := checkLease(lease); err != nil {
		return 0, err
	}
	return s.Repository.Extend(ctx, list, claim, lease)
}

// Abandon deletes the items with so many attempts or more.
func (s *Service) Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error) {
	if attempts < 1 {
		return 0, invalid(ErrInvalidAttempts, "it must be at least 1")
	}
	return s.Repository.Abandon(ctx, list, attempts, claim)
}

func checkLease(lease time.Duration) error {
	if lease < MinLease || lease > MaxLease {
		return invalid(ErrInvalidLease, "it must be 1s to 12h")
	}
	return nil
}
