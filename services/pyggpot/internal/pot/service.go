package pot

import (
	"cmp"
	"context"
)

// Service serves requests that follow the contract's rules, which the adapter checks. It has no state, so any number of
// replicas may run. Create, Find, FindByName and Change are the repository's.
type Service struct{ Repository }

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
