package postgres

import (
	"context"
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
	a := groupcommit.Attempt{LockWait: time.Minute, SkipLocked: skip}
	if skip {
		a.LockWait = 100 * time.Millisecond
	}
	var replies []*reply
	err = s.options.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var err error
		replies, err = sendClaims(ctx, tx, &a, bids)
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	for i, r := range replies {
		switch {
		case r == nil:
			wait = append(wait, group[i].Key.Value)
		case r.held != nil:
			claimed = append(claimed, group[i].Key.Value)
		}
	}
	return claimed, wait, nil
}

// ClaimAgain sends a claim as if an earlier sending might have been applied, and reports whether it took the key over.
func (s *Store) ClaimAgain(ctx context.Context, c payment.Claim) (takenOver bool, err error) {
	var replies []*reply
	a := groupcommit.Attempt{LockWait: time.Minute, Again: true}
	err = s.options.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var err error
		replies, err = sendClaims(ctx, tx, &a, []bid{{Claim: c, same: c.Fingerprint.Sum}})
		return err
	})
	return err == nil && replies[0] != nil && replies[0].held != nil && replies[0].held.TakenOver, err
}

// ClaimSQL returns the statement of claims that are named or not.
func ClaimSQL(named bool) string { return claimSQL(named, false) }

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	DeleteSettledSQL = deleteSettledSQL
	OverdueSQL       = overdueSQL
	OpenSQL          = openSQL
	SettleSQL        = settleHead + settleTail
	EndSQL           = endHead + endTail
)
