package postgres

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
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

// settled is the answer: stored, or what was found instead.
type settled struct {
	stored bool
	row    record
}

// settleBytes is the size of a settlement on the wire, without its key and receipt.
const settleBytes = 160

// Settle implements payment.Repository. A settlement whose reply was lost recognises its own payment.
func (s *Store) Settle(ctx context.Context, h payment.Held, p payment.Payment) (payment.Record, bool, error) {
	failpoint.Hit(failpoint.Settling)
	receipt, err := s.options.Encode(p)
	if err != nil {
		return payment.Record{}, false, err
	}
	r, err := do(ctx, s.settles, settlement{h, p, receipt})
	switch {
	case err != nil:
		// "Not applied" would be wrong for the card, whatever the last error was.
		return payment.Record{}, false, fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
	case r.stored || r.row.PaymentID.String == string(p.ID):
		failpoint.Hit(failpoint.Settled)
		return payment.Record{PaymentID: p.ID, Receipt: receipt}, true, nil
	}
	s.options.Contention.Conflict(contention.Lost)
	if r.row.Status != statusCompleted {
		return payment.Record{}, false, fmt.Errorf("%w: the claim was taken over", payment.ErrOutcomeUnknown)
	}
	return *r.row.domain(), false, nil
}

// settleSQL stores the payments of a group and completes their records, each one whose fence holds. The fence is read
// from the locked row, and so after the wait for it; a commit that has locked a row waits for the synchronous standbys,
// also where the settlement was stored before. The payment's values are those of the claim.
func settleSQL(skipLocked bool) string {
	if skipLocked {
		return settleHead + " SKIP LOCKED" + settleTail
	}
	return settleHead + settleTail
}

const (
	settleHead = `
WITH held AS MATERIALIZED (
    SELECT c.n, r.key, r.status = 'PROCESSING' AND r.claim_id = c.claim_id AS mine, r.status, r.payment_id AS stored_id,
           r.response_status, r.response_body, c.payment_id, c.decline_code, c.created_us, c.code, c.body
      FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::smallint[], $7::text[])
           WITH ORDINALITY AS c (key, claim_id, payment_id, decline_code, created_us, code, body, n)
      JOIN payments.idempotency_records r ON r.key = c.key
     WHERE (SELECT set_config('lock_timeout', $8, true)) IS NOT NULL
     ORDER BY r.key
       FOR UPDATE OF r`
	settleTail = `
), done AS (
    UPDATE payments.idempotency_records r
       SET status = 'COMPLETED', payment_id = h.payment_id, response_status = h.code, response_body = h.body::json
      FROM held h
     WHERE h.mine AND r.key = h.key
    RETURNING h.payment_id AS id, nullif(h.decline_code, '') AS decline_code, h.created_us, r.key, r.processor_key,
              r.ride_id, r.rider_id, r.amount, r.currency, r.card_brand, r.card_last4, r.card_exp_month, r.card_exp_year
), paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status,
                                   decline_code, card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    SELECT id, key, processor_key, ride_id, rider_id, amount, currency,
           CASE WHEN decline_code IS NULL THEN 'SUCCEEDED' ELSE 'DECLINED' END, decline_code,
           card_brand, card_last4, card_exp_month, card_exp_year,
           timestamptz 'epoch' + created_us * interval '1 microsecond'
      FROM done
)
SELECT n, mine AS stored, status, stored_id AS payment_id, response_status, response_body FROM held`
)

func (s *Store) runSettles(
	ctx context.Context, p coalesce.Pass, group []settlement,
) ([]coalesce.Answer[settled], error) {
	n := len(group)
	keys, claims, ids, declines, bodies := texts(n), texts(n), texts(n), texts(n), texts(n)
	created, codes := numbers(n), numbers(n)
	for i, c := range group {
		keys[i], claims[i], ids[i] = c.held.Record, string(c.held.ClaimID), string(c.payment.ID)
		declines[i], created[i] = c.payment.DeclineCode, c.payment.CreatedAt.UnixMicro()
		codes[i], bodies[i] = int64(c.receipt.Code), string(c.receipt.Data)
	}
	type row struct {
		record

		N      int  `db:"n"`
		Stored bool `db:"stored"`
	}
	rows, err := once[row](ctx, s.db, settleSQL(p.SkipLocked), keys, claims, ids, declines, created, codes, bodies,
		sqldb.Milliseconds(p.Wait))
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	answers := make([]coalesce.Answer[settled], n)
	for i := range answers {
		answers[i].Locked = p.SkipLocked // or gone, which a pass that waits will tell
	}
	for _, row := range rows {
		answers[row.N-1] = coalesce.Answer[settled]{Value: settled{row.Stored, row.record}}
	}
	return answers, nil
}
