package postgres

import (
	"context"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// ClaimFree claims a group as it is claimed once a wait for its locks ran out. It returns the keys that were claimed
// and those that were found locked.
func (s *Store) ClaimFree(ctx context.Context, group []payment.Claim) (claimed, locked []payment.Key, err error) {
	answers, err := s.runClaims(ctx, coalesce.Pass{SkipLocked: true}, group)
	for i, a := range answers {
		switch {
		case a.Locked:
			locked = append(locked, group[i].Key)
		case a.Value.held != nil:
			claimed = append(claimed, group[i].Key)
		}
	}
	return claimed, locked, err
}

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	DeleteSettledSQL = deleteSettledSQL
	EarlierSQL       = earlierSQL
	LookSQL          = lookSQL
	OverdueSQL       = overdueSQL
	OpenSQL          = openSQL
)

// ChangesSQL returns the statement that changes claims.
func ChangesSQL() string { return changesSQL(false) }

// SettleSQL returns the statement that settles payments.
func SettleSQL() string { return settleSQL(false) }
