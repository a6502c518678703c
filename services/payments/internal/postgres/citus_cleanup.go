package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// takeDueWait is the wait for a claim that another replica works at.
const takeDueWait = 5 * time.Millisecond

// overdueOnShards is Overdue for claims on several shards: it looks for claims that are due, and takes over each whose
// fence still holds. A claim that it loses an answer about is due again when that ran out.
func (s *Store) overdueOnShards(
	ctx context.Context, after, lease time.Duration, limit int, id payment.ClaimID,
) (rows []overdueRow, err error) {
	var due []struct {
		Bare    string `db:"bare"`
		Key     string `db:"key"`
		ClaimID string `db:"claim_id"`
	}
	if err := s.db.SelectUnqueued(ctx, &due, dueSQL, after.Microseconds(), limit); err != nil {
		return nil, err
	}
	for _, d := range due {
		var row struct {
			overdueRow

			ClaimedUntil time.Time `db:"claimed_until"`
			ExpiresAt    time.Time `db:"expires_at"`
		}
		err := s.inTx(ctx, takeDueWait, func(ctx context.Context, tx *sqlx.Tx) error {
			return tx.GetContext(ctx, &row, takeDueSQL, d.Bare, d.Key, d.ClaimID, string(id), lease.Microseconds())
		})
		switch {
		case err == nil:
			row.Now = row.ClaimedUntil.Add(-lease) // Citus returns what is stored alone
			row.Expired = !row.ExpiresAt.After(row.Now)
			rows = append(rows, row.overdueRow)
		case errors.Is(err, sql.ErrNoRows), sqldb.LockTimedOut(err): // another replica's
		case len(rows) > 0: // those that were taken over are looked at; the next call meets the error again
			return rows, nil
		default:
			return nil, err
		}
	}
	return rows, nil
}

// deleteExpiredOnShards is DeleteExpired for records on several shards.
func (s *Store) deleteExpiredOnShards(ctx context.Context, limit int) (deleted int, err error) {
	var expired []struct {
		Bare string `db:"bare"`
		Key  string `db:"key"`
	}
	if err := s.db.SelectUnqueued(ctx, &expired, expiredKeysSQL, limit); err != nil {
		return 0, err
	}
	bare, names := make([]string, len(expired)), make([]string, len(expired))
	for i, e := range expired {
		bare[i], names[i] = e.Bare, e.Key
	}
	return s.shards.Delete(ctx, deleteKeysSQL, bare, names)
}

// deleteSettledOnShards is DeleteSettled for a ledger that is distributed otherwise than the payments. It reads past
// the entries that have no payment.
func (s *Store) deleteSettledOnShards(ctx context.Context, age time.Duration, limit int) (deleted int, err error) {
	type charge struct {
		Key       string    `db:"processor_key"`
		CreatedAt time.Time `db:"created_at"`
	}
	last := charge{CreatedAt: time.Unix(0, 0)}
	for deleted < limit {
		var old []charge
		err := s.db.SelectUnqueued(ctx, &old, oldChargesSQL, age.Microseconds(), last.CreatedAt, last.Key, limit-deleted)
		if err != nil || len(old) == 0 {
			return deleted, err
		}
		keys := make([]string, len(old))
		for i, c := range old {
			keys[i] = c.Key
		}
		var settled []string
		err = s.db.SelectUnqueued(ctx, &settled, settledChargesSQL, textArray(keys), age.Microseconds())
		if err != nil {
			return deleted, err
		}
		n, err := s.charges.Delete(ctx, deleteChargesSQL, settled)
		if deleted += n; err != nil {
			return deleted, err
		}
		last = old[len(old)-1]
	}
	return deleted, nil
}

func textArray(values []string) pq.StringArray { return values }
