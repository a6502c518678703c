package httpapi

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/strictjson"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// CreatePayment pays for a ride. The response is the stored receipt, unchanged.
func (h handlers) CreatePayment(c echo.Context, params CreatePaymentParams) error {
	text, err := idempotency.ParseKey(params.IdempotencyKey)
	if err != nil {
		return err
	}
	key, err := payment.NewKey(auth.Caller(c.Request().Context()), text)
	if err != nil {
		return err
	}
	request, err := bindRequest(c)
	if err != nil {
		return err
	}

	answer, err := h.payments.Pay(c.Request().Context(), key, request)
	if err != nil {
		return err
	}

	header := c.Response().Header()
	header.Set(echo.HeaderLocation, pathPayments+"/"+string(answer.PaymentID))
	if answer.Replayed {
		header.Set(idempotency.Replayed, "true")
	}
	return c.Blob(answer.Receipt.Code, echo.MIMEApplicationJSON, answer.Receipt.Data)
}

// bindRequest reads the body and checks its values.
func bindRequest(c echo.Context) (payment.Request, error) {
	var body NewPayment
	if err := c.Bind(&body); err != nil {
		return payment.Request{}, err
	}
	card, err := payment.NewCard(body.Card.Number, body.Card.ExpMonth, body.Card.ExpYear, body.Card.Cvc)
	if err != nil {
		return payment.Request{}, err
	}
	return payment.NewRequest(body.RideId, body.RiderId, body.Amount, body.Currency, card)
}

// GetPayment returns a payment.
func (h handlers) GetPayment(c echo.Context, id string) error {
	parsed, err := payment.ParseID(id)
	if err != nil {
		return err
	}
	p, err := h.payments.Find(c.Request().Context(), parsed)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toPayment(p))
}

// ListPayments returns a page of a ride's payments.
func (h handlers) ListPayments(c echo.Context, params ListPaymentsParams) error {
	if _, err := url.ParseQuery(c.QueryString()); err != nil {
		// The error would repeat the query.
		return problem.InvalidField.New("The query is not well formed.", problem.Field(payment.FieldRideID))
	}

	ride, err := payment.NewRideID(params.RideId)
	if err != nil {
		return err
	}
	limit := payment.DefaultPageSize
	if params.Limit != nil {
		limit = *params.Limit
	}
	var after *payment.Position
	if params.After != nil && *params.After != "" {
		after, err = decodePosition(*params.After)
		if err != nil {
			return err
		}
	}

	page, next, err := h.payments.PaymentsOfRide(c.Request().Context(), ride, after, limit)
	if err != nil {
		return err
	}

	body := PaymentList{Payments: make([]Payment, len(page))}
	for i, p := range page {
		body.Payments[i] = toPayment(p)
	}
	if next != nil {
		encoded := encodePosition(*next)
		body.NextAfter = &encoded
	}
	return c.JSON(http.StatusOK, body)
}

func toPayment(p payment.Payment) Payment {
	out := Payment{
		Id: string(p.ID), RideId: string(p.RideID), RiderId: p.RiderID, Amount: p.Amount, Currency: string(p.Currency),
		Status: PaymentStatus(p.Status), Card: Card(p.Card), CreatedAt: p.CreatedAt,
	}
	if p.DeclineCode != "" {
		out.DeclineCode = &p.DeclineCode
	}
	return out
}

// Encode returns the receipt of a payment: the status and the body of the answer to every
// request with its key. GetPayment returns the same bytes.
func Encode(p payment.Payment) (payment.Receipt, error) {
	body, err := strictjson.Marshal(toPayment(p))
	if err != nil {
		return payment.Receipt{}, err
	}
	return payment.Receipt{Code: http.StatusCreated, Data: append(body, '\n')}, nil
}
