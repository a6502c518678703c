package postgres

import (
	"context"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Add implements event.Repository.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.ids.Add(ctx, n) }
