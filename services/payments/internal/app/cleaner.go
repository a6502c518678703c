package app

import (
	"context"
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
	if err := inBatches(ctx, c.store.DeleteExpired, c.metrics.Deleted); err != nil {
		c.fail(ctx, "expired keys could not be deleted", err)
	}
	settled := func(ctx context.Context, limit int) (int, error) {
		return c.store.DeleteSettled(ctx, c.retention, limit)
	}
	if err := inBatches(ctx, settled, c.metrics.LedgerDeleted); err != nil {
		c.fail(ctx, "settled entries of the ledger could not be deleted", err)
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

func (c *cleaner) fail(ctx context.Context, what string, err error) {
	if ctx.Err() == nil { // else the replica is stopping
		c.log.WarnContext(ctx, what, slog.Any("error", err)) //nolint:sloglint // one of two constants
	}
}
