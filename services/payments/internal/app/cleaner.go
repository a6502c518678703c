package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/metrics"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// cleaner deletes expired keys and settled entries of the ledger. Every replica runs one; they share the work by
// skipping rows that another has locked.
type cleaner struct {
	store     *postgres.Store
	metrics   *metrics.Metrics
	log       *slog.Logger
	retention time.Duration // of the ledger
}

// cleanupBatch limits the rows of one statement, so that it holds their locks for
// milliseconds only.
const cleanupBatch = 500

// clean cleans once. It logs a failure; the next run tries again.
func (c *cleaner) clean(ctx context.Context) {
	settled := func(ctx context.Context, limit int) (int, error) {
		return c.store.DeleteSettled(ctx, c.retention, limit)
	}
	err := errors.Join(inBatches(ctx, c.store.DeleteExpired, c.metrics.Deleted),
		inBatches(ctx, settled, c.metrics.LedgerDeleted))
	if err != nil && ctx.Err() == nil { // else the replica is stopping
		c.log.WarnContext(ctx, "expired keys or settled entries of the ledger could not be deleted", slog.Any("error", err))
	}
}

// inBatches calls remove until it removes less than a batch, and count with the number of each call.
func inBatches(ctx context.Context, remove func(ctx context.Context, limit int) (int, error), count func(int)) error {
	for n := cleanupBatch; n == cleanupBatch && ctx.Err() == nil; {
		var err error
		n, err = remove(ctx, cleanupBatch)
		if err != nil {
			return err
		}
		count(n)
	}
	return nil
}
