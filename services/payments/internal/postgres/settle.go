package postgres

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// settlement asks for a payment to be stored under a claim.
type settlement struct {
	held    payment.Held
	payment payment.Payment
	receipt payment.Receipt
}

// size returns the bytes that a settlement takes on the wire.
func (c settlement) size() int {
	const others = 160
	return others + len(c.held.Key.Value) + len(c.held.Key.Caller) + len(c.receipt.Data)
}

// settled is the answer to a settlement: stored, or what was found instead.
type settled struct {
	Stored bool    `json:"stored"`
	Record *record `json:"record"` // nil: the claim was dropped
}

// Settle implements payment.Repository.
func (s *Store) Settle(ctx context.Context, h payment.Held, p payment.Payment) (payment.Record, bool, error) {
	failpoint.Hit(failpoint.Settling)
	receipt, err := s.options.Encode(p)
	if err != nil {
		return payment.Record{}, false, err
	}

	found, err := s.settles.Do(ctx, settlement{h, p, receipt})
	switch {
	case err != nil:
		// "Not applied" would be wrong for the card, whatever the error is.
		return payment.Record{}, false, fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
	case found.Stored:
		failpoint.Hit(failpoint.Settled)
		return payment.Record{PaymentID: p.ID, Receipt: receipt}, true, nil
	}

	s.options.Contention.Conflict(contention.Lost)
	if found.Record == nil || found.Record.Status != completed {
		return payment.Record{}, false, fmt.Errorf("%w: the claim was taken over", payment.ErrOutcomeUnknown)
	}
	return *found.Record.domain(), false, nil
}

// settleHead and settleTail store the payments of a group and complete their records, each one whose fence holds. The
// fence is read from the locked row, and so after the wait for it. The payment's values come from the claim. With $4,
// where locked rows are skipped, a record that was not found gets null: the next statement tells whether it is there.
const (
	settleHead = `
WITH ` + slotSQL + `, held AS MATERIALIZED (
    SELECT l.n, l.caller, l.key, l.payment_id, l.decline_code, l.created_us, l.code, l.body, l.mine, l.record,
           clock_timestamp() - statement_timestamp() AS waited
      FROM (SELECT c.n, c.caller, c.key, c.payment_id, c.decline_code, c.created_us, c.code, c.body,
                   r.status = 'PROCESSING' AND r.claim_id = c.claim_id AS mine,
                   CASE WHEN r.claim_id <> c.claim_id OR r.status = 'COMPLETED' THEN ` + recordJSON + ` END AS record
              FROM unnest($5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::text[], $10::bigint[], $11::smallint[],
                          $12::text[])
                   WITH ORDINALITY AS c (caller, key, claim_id, payment_id, decline_code, created_us, code, body, n)
              JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = c.caller
             WHERE EXISTS (SELECT FROM slot)
             ORDER BY r.key, r.caller
               FOR UPDATE OF r`

	settleTail = `) AS l
), done AS (
    UPDATE payments.idempotency_records r
       SET status = 'COMPLETED', payment_id = h.payment_id, response_status = h.code, response_body = h.body::json
      FROM held h
     WHERE h.mine AND r.key = h.key AND r.caller = h.caller
    RETURNING h.payment_id AS id, nullif(h.decline_code, '') AS decline_code, h.created_us, r.caller, r.key,
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
), answers AS MATERIALIZED (
    SELECT json_agg(CASE WHEN h.mine THEN json_build_object('stored', true)
                         WHEN h.n IS NOT NULL THEN json_build_object('record', h.record)
                         WHEN NOT $4 THEN json_build_object('stored', false) END ORDER BY c.n) AS answers,
           max(h.waited) AS waited
      FROM unnest($5::text[]) WITH ORDINALITY AS c (caller, n)
      LEFT JOIN held h ON h.n = c.n
)` + storeSQL
)

// sendSettlements sends a group of settlements: see groupcommit.Config.Send.
func sendSettlements(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []settlement) error {
	n := len(group)
	callers, keys, claims, ids, declines, bodies := texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
	created, codes := numbers(n), numbers(n)

	for i, c := range group {
		callers[i], keys[i], claims[i] = c.held.Key.Caller, c.held.Key.Value, string(c.held.ClaimID)
		ids[i], declines[i], created[i] = string(c.payment.ID), c.payment.DeclineCode, c.payment.CreatedAt.UnixMicro()
		codes[i], bodies[i] = int64(c.receipt.Code), string(c.receipt.Data)
	}

	return a.Run(ctx, s, skipLocked(a, settleHead, settleTail), a.SkipLocked, callers, keys, claims, ids, declines,
		created, codes, bodies)
}
