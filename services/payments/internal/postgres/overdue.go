package postgres

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// overdueSQL takes over claims that ran out, and skips those that another replica has locked. A claim that was given
// back (its claimed_until is that time) is due again after half of its age, but not before $1 microseconds; and once
// more when its record has expired. If the answer is lost, the claims that it took over run out again.
const overdueSQL = `
WITH due AS MATERIALIZED (
    SELECT caller, key
      FROM payments.idempotency_records
     WHERE status = 'PROCESSING'
       AND claimed_until <= (SELECT clock_timestamp()) - $1 * interval '1 microsecond'
       AND (claimed_until + (claimed_until - created_at) / 2 <= (SELECT clock_timestamp())
            OR claimed_until <= expires_at AND expires_at <= (SELECT clock_timestamp()))
     ORDER BY claimed_until
     LIMIT $4
       FOR UPDATE SKIP LOCKED
)
UPDATE payments.idempotency_records r
   SET claim_id = $3, claimed_until = clock_timestamp() + $2 * interval '1 microsecond'
  FROM due
 WHERE r.caller = due.caller AND r.key = due.key
RETURNING r.caller, r.key, r.processor_key, r.ride_id, r.rider_id, r.amount, r.currency, r.card_brand, r.card_last4,
          r.card_exp_month, r.card_exp_year, clock_timestamp() AS now, r.expires_at <= clock_timestamp() AS expired`

// overdueRow is a claim that Overdue has taken over.
type overdueRow struct {
	Caller       string    `db:"caller"`
	Key          string    `db:"key"`
	ProcessorKey string    `db:"processor_key"`
	RideID       string    `db:"ride_id"`
	RiderID      string    `db:"rider_id"`
	Amount       int64     `db:"amount"`
	Currency     string    `db:"currency"`
	Brand        string    `db:"card_brand"`
	Last4        string    `db:"card_last4"`
	ExpMonth     int       `db:"card_exp_month"`
	ExpYear      int       `db:"card_exp_year"`
	Now          time.Time `db:"now"`
	Expired      bool      `db:"expired"`
}

// Overdue implements payment.Repository.
func (s *Store) Overdue(ctx context.Context, after, lease time.Duration, limit int) ([]payment.Overdue, error) {
	id := payment.ClaimID(payment.NewID(time.Now()))
	var rows []overdueRow
	err := s.options.DB.Repeatable().SelectContext(ctx, &rows, overdueSQL, after.Microseconds(), lease.Microseconds(),
		string(id), limit)

	overdue := make([]payment.Overdue, len(rows))
	for i, r := range rows {
		overdue[i] = payment.Overdue{Expired: r.Expired, Held: payment.Held{
			Key: payment.Key{Caller: r.Caller, Value: r.Key}, ClaimID: id, ProcessorKey: r.ProcessorKey, Now: r.Now.UTC(),
			TakenOver: true,
			Terms: payment.Terms{
				RideID: payment.RideID(r.RideID), RiderID: r.RiderID, Amount: r.Amount, Currency: payment.Currency(r.Currency),
				Card: payment.CardFace{Brand: r.Brand, Last4: r.Last4, ExpMonth: r.ExpMonth, ExpYear: r.ExpYear},
			},
		}}
	}
	return overdue, err
}

// openSQL counts with an index on claims only, whatever the size of the tables. A claim that Overdue has taken over is
// still open, because the claim of its request ran out.
const openSQL = `
SELECT count(*)
  FROM payments.idempotency_records
 WHERE status = 'PROCESSING'
   AND least(claimed_until, created_at + $1 * interval '1 microsecond') <= (SELECT clock_timestamp())`

// Open counts the payments whose claim, with a lifetime of lease, ran out or was given back: it is not yet known
// whether they were charged.
func (s *Store) Open(ctx context.Context, lease time.Duration) (n int, err error) {
	err = s.options.DB.Repeatable().GetContext(ctx, &n, openSQL, lease.Microseconds())
	return n, err
}
