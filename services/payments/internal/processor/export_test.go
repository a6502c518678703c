package processor

import (
	"context"
	"encoding/json"
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
	a := groupcommit.Attempt{Number: 1, LockWait: time.Minute}
	err = s.ledger.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		const slot = `INSERT INTO payments.slots (id, attempt, used_at) VALUES (gen_random_uuid(), 0, now()) RETURNING id`
		if err := tx.GetContext(ctx, &a.Slot, slot); err != nil {
			return err
		}
		return sendEntries(ctx, tx, &a, group)
	})
	if err != nil {
		return nil, err
	}

	var answers []*entry
	err = json.Unmarshal(a.Answers, &answers)
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
