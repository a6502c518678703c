package postgres

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// overdueSQL takes over claims that ran out, and skips those that another replica has locked. A claim that was given
// back (its claimed_until is that time) is due again after half of its age, but not before $1 microseconds; and once
// more when its record has expired. If the answer is lost, the claims that it took over run out again. The columns are
// named as the fields of payment.Overdue.
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
RETURNING r.caller AS "key.caller", r.key AS "key.value", r.claim_id AS claimid, r.processor_key AS processorkey,
          r.ride_id AS "terms.rideid", r.rider_id AS "terms.riderid", r.amount AS "terms.amount",
          r.currency AS "terms.currency", r.card_brand AS "terms.card.brand", r.card_last4 AS "terms.card.last4",
          r.card_exp_month AS "terms.card.expmonth", r.card_exp_year AS "terms.card.expyear",
          clock_timestamp() AS now, true AS takenover, r.expires_at <= clock_timestamp() AS expired`

// Overdue implements payment.Repository.
func (s *Store) Overdue(
	ctx context.Context, after, lease time.Duration, limit int,
) (overdue []payment.Overdue, err error) {
	err = s.options.DB.Repeatable().SelectContext(ctx, &overdue, overdueSQL, after.Microseconds(), lease.Microseconds(),
		string(payment.NewID(time.Now())), limit)
	for i := range overdue {
		overdue[i].Now = overdue[i].Now.UTC()
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
