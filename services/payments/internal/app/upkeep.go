package app

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/metrics"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// upkeep deletes expired keys and settled entries of the ledger, and settles the payments of claims that ran out. Every
// replica does so; they share the work by skipping rows that another has locked.
type upkeep struct {
	service   *payment.Service
	store     *postgres.Store
	metrics   *metrics.Metrics
	retention time.Duration // of the ledger
	lease     time.Duration // of a claim
}

const (
	// cleanupBatch limits the rows of one statement, so that it holds their locks for milliseconds only.
	cleanupBatch = 500
	// reconcileBatch limits the claims that the processor is asked about at once.
	reconcileBatch = 16
)

// clean deletes what is no longer needed.
func (u *upkeep) clean(ctx context.Context) error {
	settled := func(ctx context.Context, limit int) (int, error) {
		return u.store.DeleteSettled(ctx, u.retention, limit)
	}
	return errors.Join(inBatches(ctx, cleanupBatch, u.store.DeleteExpired, u.metrics.Deleted),
		inBatches(ctx, cleanupBatch, settled, u.metrics.LedgerDeleted))
}

// reconcile settles all claims that are due, and counts the open ones.
func (u *upkeep) reconcile(ctx context.Context) error {
	failed := inBatches(ctx, reconcileBatch, u.service.Reconcile, func(int) {})
	if ctx.Err() != nil {
		return failed // the replica is stopping: what is unsettled is not unknown
	}

	n, err := u.store.Open(ctx, u.lease)
	u.metrics.Unsettled(n, err)
	return errors.Join(failed, err)
}

// inBatches calls work until it does less than a batch, and count with the number of each call.
func inBatches(
	ctx context.Context, batch int, work func(ctx context.Context, limit int) (int, error), count func(int),
) error {
	for n := batch; n == batch && ctx.Err() == nil; {
		var err error
		n, err = work(ctx, batch)
		if err != nil {
			return err
		}
		count(n)
	}
	return nil
}
