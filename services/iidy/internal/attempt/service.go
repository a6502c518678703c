package attempt

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"
)

// Service checks arguments and passes them to a repository. It holds no state, so
// any number of replicas may run.
type Service struct {
	repo Repository
}

// NewService returns a service on repo.
func NewService(repo Repository) *Service { return &Service{repo} }

// Get returns the attempts of an item, or ErrNotFound.
func (s *Service) Get(ctx context.Context, list List, item Item) (int64, error) {
	if err := item.check(list); err != nil {
		return 0, err
	}
	return s.repo.Get(ctx, list, item)
}

// Exists reports whether the list has an item.
func (s *Service) Exists(ctx context.Context, list List) (bool, error) {
	if err := list.check(); err != nil {
		return false, err
	}
	return s.repo.Exists(ctx, list)
}

// Page returns up to count entries (0 to MaxPage) after a position, in byte order;
// "" is the position before the first item, and other positions need not be items.
func (s *Service) Page(ctx context.Context, list List, after string, count int) ([]Entry, error) {
	if err := list.check(); err != nil {
		return nil, err
	}
	if count < 0 || count > MaxPage {
		return nil, invalid(ErrInvalidCount, "it must be 0 to %d", MaxPage)
	}
	if !utf8.ValidString(after) || strings.Contains(after, "\x00") {
		return nil, invalid(ErrInvalidPosition, "it is not valid UTF-8 or holds a NUL")
	}
	if count == 0 {
		return nil, nil
	}
	return s.repo.Page(ctx, list, after, count)
}

// Count counts the list's items, in all, claimed, and by attempts. It takes time in
// proportion to their number.
func (s *Service) Count(ctx context.Context, list List) (Counts, error) {
	if err := list.check(); err != nil {
		return Counts{}, err
	}
	return s.repo.Count(ctx, list)
}

// Apply changes one item and returns 1, or 0 if there was nothing to change.
func (s *Service) Apply(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error) {
	if err := firstOf(item.check(list), claim.checkOptional()); err != nil {
		return 0, err
	}
	return s.repo.Apply(ctx, change, list, item, claim)
}

// ApplyBatch changes all items of a source, or none when it returns an error, and
// returns how many were changed. It reads a short batch whole before the repository
// gets it, and passes a longer one on part by part. An invalid item is reported as
// a PlaceError.
func (s *Service) ApplyBatch(ctx context.Context, change Change, list List, source Source, claim Claim) (int64, error) {
	if err := firstOf(list.check(), claim.checkOptional()); err != nil {
		return 0, err
	}
	b := batch{list: list, source: source}
	switch err := b.read(noLimit); {
	case err != nil:
		return 0, err
	case b.ended && b.items.Len() == 0:
		return 0, nil
	case b.ended:
		return s.repo.ApplyBatch(ctx, change, list, &b.items, claim)
	}
	return s.repo.ApplyStaged(ctx, change, list, b.next, claim)
}

// Abandon deletes the items with at least that many attempts, which must be
// positive, and returns their number.
func (s *Service) Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error) {
	if err := firstOf(list.check(), claim.checkOptional()); err != nil {
		return 0, err
	}
	if attempts < 1 {
		return 0, invalid(ErrInvalidAttempts, "it must be at least 1")
	}
	return s.repo.Abandon(ctx, list, attempts, claim)
}

// Claim takes up to count free items (1 to MaxPage) in byte order, for the time of
// the lease (MinLease to MaxLease).
func (s *Service) Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error) {
	if err := firstOf(list.check(), checkLease(lease)); err != nil {
		return Lease{}, err
	}
	if count < 1 || count > MaxPage {
		return Lease{}, invalid(ErrInvalidCount, "it must be 1 to %d", MaxPage)
	}
	return s.repo.Claim(ctx, list, count, lease)
}

// Extend replaces the lease of the items that the claim still holds by one that
// begins now, and returns their number.
func (s *Service) Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error) {
	if err := firstOf(list.check(), claim.check(), checkLease(lease)); err != nil {
		return 0, err
	}
	return s.repo.Extend(ctx, list, claim, lease)
}

// Release frees the items that the claim still holds, and returns their number.
func (s *Service) Release(ctx context.Context, list List, claim Claim) (int64, error) {
	if err := firstOf(list.check(), claim.check()); err != nil {
		return 0, err
	}
	return s.repo.Release(ctx, list, claim)
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkLease(lease time.Duration) error {
	if lease < MinLease || lease > MaxLease {
		return invalid(ErrInvalidLease, "it must be 1s to 12h")
	}
	return nil
}
