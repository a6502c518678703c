package postgres

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// ClaimFree claims a group as it is claimed once a wait for its locks ran out. It returns the keys that were claimed
// and those that were found locked.
func (s *Store) ClaimFree(ctx context.Context, group []payment.Claim) (claimed, locked []string, err error) {
	bids := make([]bid, len(group))
	for i, c := range group {
		bids[i].Claim = c
	}
	for len(bids) > 0 && err == nil {
		var answers []coalesce.Answer[state]
		answers, err = s.runClaims(ctx, coalesce.Pass{SkipLocked: true}, bids)
		var again []bid
		for i, a := range answers {
			switch {
			case a.Locked:
				locked = append(locked, bids[i].Key.Value)
			case a.Value.held != nil:
				claimed = append(claimed, bids[i].Key.Value)
			case a.Value.earlier != bids[i].earlier:
				again = append(again, bid{bids[i].Claim, a.Value.earlier})
			}
		}
		bids = again
	}
	return claimed, locked, err
}

// TakeOver takes the claim over for the same terms, and reports whether it did.
func (s *Store) TakeOver(ctx context.Context, held payment.Held) (bool, error) {
	next := held
	next.ClaimID = payment.ClaimID(payment.NewID(time.Now()))
	now, err := do(ctx, s.changes, change{
		kind: takeOver, fence: string(held.ClaimID), held: next, lease: time.Hour, ttl: time.Hour,
	})
	return now.held != nil, err
}

// ClaimWaiting claims a group of keys without earlier payments, waits for their rows, and returns the keys that were
// claimed.
func (s *Store) ClaimWaiting(ctx context.Context, group []payment.Claim) (claimed []string, err error) {
	bids := make([]bid, len(group))
	for i, c := range group {
		bids[i].Claim = c
	}
	answers, err := s.runClaims(ctx, coalesce.Pass{Wait: time.Minute}, bids)
	for i, a := range answers {
		if a.Value.held != nil {
			claimed = append(claimed, group[i].Key.Value)
		}
	}
	return claimed, err
}

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	DeleteSettledSQL = deleteSettledSQL
	LookSQL          = lookSQL
	OverdueSQL       = overdueSQL
	OpenSQL          = openSQL
)

// ClaimSQL returns the statement that claims keys without a caller.
func ClaimSQL() string { return claimSQL(false, ofNoCaller()) }

// ClaimOfCallersSQL returns the statement that claims keys of callers.
func ClaimOfCallersSQL() string { return claimSQL(false, ofCallers()) }

// ChangesSQL returns the statement that changes claims.
func ChangesSQL() string { return changesSQL(false) }

// SettleSQL returns the statement that settles payments.
func SettleSQL() string { return settleSQL(false) }
