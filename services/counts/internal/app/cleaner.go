package app

import (
	"context"
	"log/slog"

	"github.com/rowlock/rowlock/services/counts/internal/metrics"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// cleaner deletes expired keys and journal rows on every replica. The replicas share the work by skipping rows that
// another has locked.
type cleaner struct {
	store   *postgres.Store
	metrics *metrics.Metrics
	log     *slog.Logger
}

// clean cleans once. A failure is logged and tried again at the next time.
func (c *cleaner) clean(ctx context.Context) {
	for _, table := range []string{postgres.Keys, postgres.Journal} {
		err := c.store.DeleteExpired(ctx, table, func(n int) { c.metrics.Deleted(table, n) })
		if err != nil && ctx.Err() == nil { // else the replica is stopping
			c.log.WarnContext(ctx, "expired rows could not be deleted", slog.String("table", table), slog.Any("error", err))
		}
	}
}
