package attempt

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode/utf8"
)

// Service checks arguments and passes them to a repository. It has no state, so any
// number of replicas may run.
type Service struct {
	repo  Repository
	spool Spool
}

// NewService returns a service on repo, which keeps long batches in spool until they
// have arrived.
func NewService(repo Repository, spool Spool) *Service {
	return &Service{repo: repo, spool: spool}
}

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
func (s *Service) Page(ctx context.Context, list List, after string, count int) (Entries, error) {
	if err := list.check(); err != nil {
		return Entries{}, err
	}
	if count < 0 || count > MaxPage {
		return Entries{}, invalid(ErrInvalidCount, "it must be 0 to %d", MaxPage)
	}
	if !utf8.ValidString(after) || strings.Contains(after, "\x00") {
		return Entries{}, invalid(ErrInvalidPosition, "it is not valid UTF-8 or holds a NUL")
	}
	if count == 0 {
		return Entries{}, nil
	}
	return s.repo.Page(ctx, list, after, count)
}

// Count counts the list's items: in total, claimed, and by attempts. It takes time
// proportional to their number.
func (s *Service) Count(ctx context.Context, list List) (Counts, error) {
	if err := list.check(); err != nil {
		return Counts{}, err
	}
	return s.repo.Count(ctx, list)
}

// Apply changes one item and returns 1, or 0 if there was nothing to change.
func (s *Service) Apply(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error) {
	if err := item.check(list); err != nil {
		return 0, err
	}
	return s.repo.Apply(ctx, change, list, item, claim)
}

// Fits returns ErrSpoolFull when the spool has no room for that many bytes now. That may
// change until the batch has arrived.
func (s *Service) Fits(bytes int64) error {
	if bytes > s.spool.Free() {
		return ErrSpoolFull
	}
	return nil
}

// ApplyBatch changes all items of a source, or none when it returns an error, and
// returns the number of changed items. It reads the whole source before it calls the
// repository: a batch that arrives slowly takes room in the spool but nothing of the
// database. It returns a PlaceError for an invalid item.
func (s *Service) ApplyBatch(ctx context.Context, change Change, list List, source Source, claim Claim) (int64, error) {
	if err := list.check(); err != nil {
		return 0, err
	}

	var b batch
	defer b.close()
	if err := b.gather(list, source, s.spool); err != nil {
		return 0, err
	}

	switch {
	case !b.fits():
		return s.repo.ApplyStaged(ctx, change, list, b.parts(), claim)
	case b.Len() == 0:
		return 0, nil
	}
	return s.repo.ApplyBatch(ctx, change, list, &b, claim)
}

// Abandon deletes the items with at least that many attempts (1 or more), and returns
// their number.
func (s *Service) Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error) {
	if err := list.check(); err != nil {
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
	if err := cmp.Or(list.check(), checkLease(lease)); err != nil {
		return Lease{}, err
	}
	if count < 1 || count > MaxPage {
		return Lease{}, invalid(ErrInvalidCount, "it must be 1 to %d", MaxPage)
	}
	return s.repo.Claim(ctx, list, count, lease)
}

// Extend replaces the lease of the items that the claim still holds, and returns their
// number. The new lease begins now.
func (s *Service) Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error) {
	if err := cmp.Or(list.check(), claim.check(), checkLease(lease)); err != nil {
		return 0, err
	}
	return s.repo.Extend(ctx, list, claim, lease)
}

// Release frees the items that the claim still holds, and returns their number.
func (s *Service) Release(ctx context.Context, list List, claim Claim) (int64, error) {
	if err := cmp.Or(list.check(), claim.check()); err != nil {
		return 0, err
	}
	return s.repo.Release(ctx, list, claim)
}

func checkLease(lease time.Duration) error {
	if lease < MinLease || lease > MaxLease {
		return invalid(ErrInvalidLease, "it must be 1s to 12h")
	}
	return nil
}
