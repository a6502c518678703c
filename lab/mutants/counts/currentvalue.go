// Mutant of services/counts/internal/postgres/first.go: a replay answers the current value.

package postgres

import (
	"context"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// firstStarts reads the counts as they are now.
func (s *Store) firstStarts(ctx context.Context, u *update, stored nullInts) ([]int64, error) {
	starts := make([]int64, len(stored))
	for i, step := range u.steps {
		v, err := s.Find(ctx, counting.ItemID(step.id))
		if err != nil {
			return nil, err
		}
		starts[i] = v.Current - step.delta
	}
	return starts, nil
}
