package processor

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Group makes charges by one statement, and says of each "charged", "there" or "waits".
func (s *Simulator) Group(ctx context.Context, charges ...payment.Charge) (texts []string, err error) {
	group := make([]entry, len(charges))
	for i, c := range charges {
		group[i] = s.entryOf(c)
	}
	a := groupcommit.Attempt{LockWait: time.Minute}
	var answers []*entry
	err = s.options.Limits.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var err error
		answers, err = sendEntries(ctx, tx, &a, group)
		return err
	})
	for _, e := range answers {
		switch {
		case e == nil:
			texts = append(texts, "waits")
		case e.Fresh:
			texts = append(texts, "charged")
		default:
			texts = append(texts, "there")
		}
	}
	return texts, err
}
