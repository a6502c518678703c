package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add implements event.Repository.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.ids.Add(ctx, n) }

// milliseconds writes a wait as lock_timeout wants it; 0 would mean for ever.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
