package app

import (
	"context"
	"log/slog"

	"github.com/rowlock/rowlock/services/counts/internal/metrics"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// cleaner deletes expired keys. Every replica runs one; they share the work by skipping rows that another has locked.
type cleaner struct {
	store   *postgres.Store
	metrics *metrics.Metrics
	log     *slog.Logger
}

// clean deletes the expired keys once. It logs a failure; the next run tries again.
func (c *cleaner) clean(ctx context.Context) {
	err := c.store.DeleteExpired(ctx, c.metrics.Deleted)
	if err != nil && ctx.Err() == nil { // else the replica is stopping
		c.log.WarnContext(ctx, "expired keys could not be deleted", slog.Any("error", err))
	}
}
