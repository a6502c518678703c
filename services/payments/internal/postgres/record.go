package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// earlierSQL counts the payments of a key. It runs after the claim, in a snapshot that
// sees the payment of the previous owner, for whose transaction the claim has waited.
const earlierSQL = `SELECT count(*) FROM payments.payments WHERE idempotency_key = $1`

// storeSQL writes the payment and its receipt.
const storeSQL = `
WITH paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status,
                                   decline_code, card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
)
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = $1, response_status = $15, response_body = $16
 WHERE key = $2 AND status = 'PROCESSING'`

const recordColumns = `status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body`

const statusCompleted = "COMPLETED"

// record holds a row of idempotency_records.
type record struct {
	Status      string         `db:"status"`
	Fingerprint []byte         `db:"request_fingerprint"`
	Version     string         `db:"fingerprint_version"`
	PaymentID   sql.NullString `db:"payment_id"`
	Response    sql.NullInt32  `db:"response_status"`
	Body        []byte         `db:"response_body"`
}

func (r record) domain() payment.Record {
	return payment.Record{
		Fingerprint: payment.Fingerprint{Sum: r.Fingerprint, Version: r.Version},
		PaymentID:   payment.ID(r.PaymentID.String),
		Receipt:     payment.Receipt{Code: int(r.Response.Int32), Data: r.Body},
	}
}

// completed returns the live record of a key that was settled. Most repeats end here,
// with one plain read and no lock. A payment does not queue behind pages for it.
func (s *Store) completed(ctx context.Context, key payment.Key) (r payment.Record, found bool, err error) {
	const query = `
SELECT ` + recordColumns + `
  FROM payments.idempotency_records
 WHERE key = $1 AND status = 'COMPLETED' AND expires_at > clock_timestamp()`
	var row record
	err = s.db.GetUnqueued(ctx, &row, query, string(key))
	if errors.Is(err, sql.ErrNoRows) {
		return payment.Record{}, false, nil
	}
	return row.domain(), err == nil, err
}
