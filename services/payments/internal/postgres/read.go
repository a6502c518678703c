package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// paymentColumns are named as the fields of payment.Payment.
const paymentColumns = `id, ride_id AS rideid, rider_id AS riderid, amount, currency, status,
       coalesce(decline_code, '') AS declinecode, card_brand AS "card.brand", card_last4 AS "card.last4",
       card_exp_month AS "card.expmonth", card_exp_year AS "card.expyear", created_at AS createdat`

// Find implements payment.Repository.
func (s *Store) Find(ctx context.Context, id payment.ID) (payment.Payment, error) {
	const query = `
SELECT ` + paymentColumns + `
  FROM payments.payments
 WHERE id = $1`

	var p payment.Payment
	err := s.options.DB.GetContext(ctx, &p, query, string(id))
	if errors.Is(err, sql.ErrNoRows) {
		return payment.Payment{}, payment.ErrNotFound
	}
	p.CreatedAt = p.CreatedAt.UTC()
	return p, err
}

const (
	pageSQL = `
SELECT ` + paymentColumns + `
  FROM payments.payments
 WHERE ride_id = $1
 ORDER BY created_at DESC, id DESC
 LIMIT $2`

	pageAfterSQL = `
SELECT ` + paymentColumns + `
  FROM payments.payments
 WHERE ride_id = $1 AND (created_at, id) < ($3, $4)
 ORDER BY created_at DESC, id DESC
 LIMIT $2`
)

// FindOfRide implements payment.Repository.
func (s *Store) FindOfRide(
	ctx context.Context, ride payment.RideID, after *payment.Position, limit int,
) ([]payment.Payment, error) {
	query, args := pageSQL, []any{string(ride), limit}
	if after != nil {
		query, args = pageAfterSQL, append(args, after.CreatedAt, string(after.ID))
	}

	page := []payment.Payment{}
	err := s.options.DB.SelectContext(ctx, &page, query, args...)
	for i := range page {
		page[i].CreatedAt = page[i].CreatedAt.UTC()
	}
	return page, err
}
