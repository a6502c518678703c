package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// row holds a row of payments.
type row struct {
	ID           string         `db:"id"`
	RideID       string         `db:"ride_id"`
	RiderID      string         `db:"rider_id"`
	Amount       int64          `db:"amount"`
	Currency     string         `db:"currency"`
	Status       string         `db:"status"`
	DeclineCode  sql.NullString `db:"decline_code"`
	CardBrand    string         `db:"card_brand"`
	CardLast4    string         `db:"card_last4"`
	CardExpMonth int            `db:"card_exp_month"`
	CardExpYear  int            `db:"card_exp_year"`
	CreatedAt    time.Time      `db:"created_at"`
}

const paymentColumns = `id, ride_id, rider_id, amount, currency, status, decline_code,
       card_brand, card_last4, card_exp_month, card_exp_year, created_at`

func (r row) payment() payment.Payment {
	return payment.Payment{
		ID: payment.ID(r.ID), RideID: payment.RideID(r.RideID), RiderID: r.RiderID, Amount: r.Amount,
		Currency: payment.Currency(r.Currency), Status: payment.Status(r.Status), DeclineCode: r.DeclineCode.String,
		Card:      payment.CardFace{Brand: r.CardBrand, Last4: r.CardLast4, ExpMonth: r.CardExpMonth, ExpYear: r.CardExpYear},
		CreatedAt: r.CreatedAt.UTC(),
	}
}

// Find implements payment.Repository.
func (s *Store) Find(ctx context.Context, id payment.ID) (payment.Payment, error) {
	const query = `
SELECT ` + paymentColumns + `
  FROM payments.payments
 WHERE id = $1`

	var r row
	err := s.options.DB.GetContext(ctx, &r, query, string(id))
	if errors.Is(err, sql.ErrNoRows) {
		return payment.Payment{}, payment.ErrNotFound
	}
	if err != nil {
		return payment.Payment{}, err
	}
	return r.payment(), nil
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

	var rows []row
	if err := s.options.DB.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, err
	}

	page := make([]payment.Payment, len(rows))
	for i, r := range rows {
		page[i] = r.payment()
	}
	return page, nil
}
