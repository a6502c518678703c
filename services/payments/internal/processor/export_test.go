package processor

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Group makes charges by one statement.
func (s *Simulator) Group(ctx context.Context, charges ...payment.Charge) error {
	group := make([]entry, len(charges))
	for i, c := range charges {
		group[i] = s.entryOf(c)
	}
	a := groupcommit.Attempt{LockWait: time.Minute}
	return s.options.Limits.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := sendEntries(ctx, tx, &a, group)
		return err
	})
}
