package processor

import (
	"context"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Group makes charges as one group, and says of each "charged", "there" (by another call) or "locked".
func (s *Simulator) Group(ctx context.Context, pass coalesce.Pass, charges ...payment.Charge) ([]string, error) {
	group := make([]entry, len(charges))
	for i, c := range charges {
		group[i] = s.entryOf(c)
	}
	answers, err := s.ledger.run(ctx, pass, group)
	texts := make([]string, len(answers))
	for i, a := range answers {
		switch {
		case a.Locked:
			texts[i] = "locked"
		case a.Value.Fresh:
			texts[i] = "charged"
		case a.Err == nil && a.Value.Key == group[i].Key:
			texts[i] = "there"
		}
	}
	return texts, err
}
