package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/metrics"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// reconciler settles the payments of claims that ran out, and counts the open ones. Every replica runs one; they share
// the work by skipping rows that another has locked.
type reconciler struct {
	service *payment.Service
	store   *postgres.Store
	metrics *metrics.Metrics
	log     *slog.Logger
	lease   time.Duration // of a claim
}

// reconcileBatch limits the claims that the processor is asked about at once.
const reconcileBatch = 16

// reconcile settles all claims that are due. It logs a failure; the next run tries again.
func (r *reconciler) reconcile(ctx context.Context) {
	for n := reconcileBatch; n == reconcileBatch && ctx.Err() == nil; {
		var err error
		n, err = r.service.Reconcile(ctx, reconcileBatch)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "open payments could not be settled", slog.Any("error", err))
			break
		}
	}

	n, err := r.store.Open(ctx, r.lease)
	switch {
	case ctx.Err() != nil: // the replica is stopping
	case err != nil:
		r.metrics.UnsettledUnknown()
		r.log.WarnContext(ctx, "unsettled charges could not be counted", slog.Any("error", err))
	default:
		r.metrics.Unsettled(n)
	}
}
