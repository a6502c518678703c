package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// ClaimGroup claims a group of keys by one statement, each with so many earlier payments, and skips locked rows or
// waits for them. It returns the values of the keys that were claimed and of those that are to wait in their lanes.
func (s *Store) ClaimGroup(
	ctx context.Context, skip bool, earlier int, group ...payment.Claim,
) (claimed, wait []string, err error) {
	bids := make([]bid, len(group))
	for i, c := range group {
		bids[i] = bid{Claim: c, same: c.Fingerprint.Sum, earlier: earlier}
	}
	a := groupcommit.Attempt{Number: 1, LockWait: time.Minute, SkipLocked: skip}
	if skip {
		a.LockWait = 100 * time.Millisecond
	}
	err = s.options.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		const slot = `INSERT INTO payments.slots (id, attempt, used_at) VALUES (gen_random_uuid(), 0, now()) RETURNING id`
		if err := tx.GetContext(ctx, &a.Slot, slot); err != nil {
			return err
		}
		return sendClaims(ctx, tx, &a, bids)
	})
	if err != nil {
		return nil, nil, err
	}

	var replies []*reply
	err = json.Unmarshal(a.Answers, &replies)
	for i, r := range replies {
		switch {
		case r == nil:
			wait = append(wait, group[i].Key.Value)
		case r.Claim != nil:
			claimed = append(claimed, group[i].Key.Value)
		}
	}
	return claimed, wait, err
}

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	DeleteSettledSQL = deleteSettledSQL
	OverdueSQL       = overdueSQL
	OpenSQL          = openSQL
	ClaimSQL         = claimHead + claimMade + claimTail
	SettleSQL        = settleHead + settleTail
	EndSQL           = endHead + endTail
)
