package postgres

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// settlement asks for a payment to be stored under a claim.
type settlement struct {
	held    payment.Held
	payment payment.Payment
	receipt payment.Receipt
}

// size returns the size in bytes of a settlement on the wire.
func (c settlement) size() int {
	const others = 160
	return others + len(c.held.Key.Value) + len(c.held.Key.Caller) + len(c.receipt.Data)
}

// settled is the answer to a settlement: stored, or the record found instead, which is empty if the claim was dropped.
type settled struct {
	stored bool
	record record
}

// Settle implements payment.Repository.
func (s *Store) Settle(ctx context.Context, h payment.Held, p payment.Payment) (payment.Record, bool, error) {
	failpoint.Hit(failpoint.Settling)
	receipt, err := s.options.Encode(p)
	if err != nil {
		return payment.Record{}, false, err
	}

	var found settled
	settle := func(ctx context.Context) (err error) {
		found, err = s.settles.Do(ctx, settlement{h, p, receipt})
		return err
	}
	inTime, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()

	err = settle(ctx)
	outcome, ofDatabase := sqldb.OutcomeOf(err)
	if ofDatabase && outcome == sqldb.NotApplied { // it may be restarting, and the card is charged
		err = s.options.DB.Resolve(inTime, err, func(ctx context.Context) (bool, error) { return true, settle(ctx) })
	}
	switch {
	case err != nil:
		// Whatever the error, "not applied" would be wrong for the card.
		return payment.Record{}, false, fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
	case found.stored:
		failpoint.Hit(failpoint.Settled)
		return payment.Record{PaymentID: p.ID, Receipt: receipt}, true, nil
	}

	s.options.Contention.Conflict(contention.Lost)
	if found.record.Status.String != completed {
		return payment.Record{}, false, fmt.Errorf("%w: the claim was taken over", payment.ErrOutcomeUnknown)
	}
	return *found.record.domain(), false, nil
}

// settleHead and settleTail store the payments of a group and complete their records, each if its fence holds. The
// fence is read from the locked row, and so after the wait for the lock. A commit that has locked a row waits for the
// synchronous standbys, even if the settlement was stored before. The payment's values come from the claim.
const (
	settleHead = `
WITH held AS MATERIALIZED (
    SELECT l.n, l.caller, l.key, l.new_id, l.decline_code, l.created_us, l.code, l.body, l.mine, l.status,
           l.request_fingerprint, l.fingerprint_version, l.payment_id, l.response_status, l.response_body,
           clock_timestamp() - statement_timestamp() AS waited
      FROM (SELECT c.n, c.caller, c.key, c.new_id, c.decline_code, c.created_us, c.code, c.body,
                   r.status = 'PROCESSING' AND r.claim_id = c.claim_id AS mine, ` + recordColumns + `
              FROM unnest($2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::bigint[], $8::smallint[],
                          $9::text[])
                   WITH ORDINALITY AS c (caller, key, claim_id, new_id, decline_code, created_us, code, body, n)
              JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = c.caller
             WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
             ORDER BY r.key, r.caller
               FOR UPDATE OF r`

	settleTail = `) AS l
), done AS (
    UPDATE payments.idempotency_records r
       SET status = 'COMPLETED', payment_id = h.new_id, response_status = h.code, response_body = h.body::json
      FROM held h
     WHERE h.mine AND r.key = h.key AND r.caller = h.caller
    RETURNING h.new_id AS id, nullif(h.decline_code, '') AS decline_code, h.created_us, r.caller, r.key,
              r.processor_key, r.ride_id, r.rider_id, r.amount, r.currency, r.card_brand, r.card_last4,
              r.card_exp_month, r.card_exp_year
), paid AS (
    INSERT INTO payments.payments (id, caller, idempotency_key, processor_key, ride_id, rider_id, amount, currency,
                                   status, decline_code, card_brand, card_last4, card_exp_month, card_exp_year,
                                   created_at)
    SELECT id, caller, key, processor_key, ride_id, rider_id, amount, currency,
           CASE WHEN decline_code IS NULL THEN 'SUCCEEDED' ELSE 'DECLINED' END, decline_code,
           card_brand, card_last4, card_exp_month, card_exp_year,
           timestamptz 'epoch' + created_us * interval '1 microsecond'
      FROM done
)
SELECT n, mine, status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body,
       extract(epoch FROM waited)::float8 AS waited
  FROM held`
)

// sendSettlements sends a group of settlements: see groupcommit.Config.Repeat. A settlement recognises its payment by
// its id.
func sendSettlements(
	ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []settlement,
) ([]*settled, error) {
	n := len(group)
	callers, keys, claims, ids, declines, bodies := texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
	created, codes := numbers(n), numbers(n)

	for i, c := range group {
		callers[i], keys[i], claims[i] = c.held.Key.Caller, c.held.Key.Value, string(c.held.ClaimID)
		ids[i], declines[i], created[i] = string(c.payment.ID), c.payment.DeclineCode, c.payment.CreatedAt.UnixMicro()
		codes[i], bodies[i] = int64(c.receipt.Code), string(c.receipt.Data)
	}

	var rows []struct {
		record

		N      int     `db:"n"`
		Mine   bool    `db:"mine"`
		Waited float64 `db:"waited"`
	}
	err := s.SelectContext(ctx, &rows, skipLocked(a, settleHead, settleTail), sqldb.Milliseconds(a.LockWait), callers,
		keys, claims, ids, declines, created, codes, bodies)
	if err != nil {
		return nil, err
	}

	answers := missing[settled](a, n)
	for _, row := range rows {
		answers[row.N-1] = &settled{row.Mine || row.PaymentID.String == ids[row.N-1], row.record}
		a.WaitedFor(row.Waited)
	}
	return answers, nil
}
