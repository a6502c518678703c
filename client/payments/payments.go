// Package payments calls the payments service: it charges a ride once, however
// often the request is sent with the same key.
package payments

import (
	"context"
	"time"

	"github.com/google/uuid"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/paymentsapi"
)

//go:generate -command oapi go tool -modfile=../../tools/go.mod oapi-codegen --config=../internal/client.yaml
//go:generate oapi --package=paymentsapi -o=../internal/paymentsapi/api.gen.go ../../services/payments/api/openapi.yaml

// Codes of the service.
const (
	ErrKeyRequired      rowlock.Code = "IDEMPOTENCY_KEY_REQUIRED"
	ErrKeyConflict      rowlock.Code = "IDEMPOTENCY_KEY_CONFLICT"
	ErrProcessing       rowlock.Code = "PAYMENT_PROCESSING"
	ErrNotFound         rowlock.Code = "PAYMENT_NOT_FOUND"
	ErrProcessorError   rowlock.Code = "PROCESSOR_ERROR"
	ErrProcessorTimeout rowlock.Code = "PROCESSOR_TIMEOUT"
)

// Client calls one payments service. It is safe for concurrent use.
type Client struct{ api *api.Client }

// New returns a client of the service at baseURL, such as
// "http://rowlock-payments". It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) (*Client, error) {
	c, err := api.NewClient(baseURL, api.WithHTTPClient(call.Doer{Settings: call.Settings(options)}))
	return &Client{c}, err
}

// NewPayment describes what to charge.
type NewPayment struct {
	RideID, RiderID string
	// Amount is in minor units: 1250 EUR are 12.50 euros.
	Amount int64
	// Currency is a code of ISO 4217.
	Currency string
	Card     NewCard
}

// NewCard holds the card to charge. Number and CVC are never stored.
type NewCard struct {
	Number            string
	ExpMonth, ExpYear int
	CVC               string
}

// Status is the final state of a payment.
type Status string

// Both are final.
const (
	Succeeded Status = "SUCCEEDED"
	Declined  Status = "DECLINED"
)

// Payment holds a completed payment.
type Payment struct {
	ID              string
	RideID, RiderID string
	// Amount is in minor units.
	Amount   int64
	Currency string
	Status   Status
	// DeclineCode says why the status is Declined; else it is empty.
	DeclineCode string
	Card        Card
	CreatedAt   time.Time
}

// Card holds the stored part of a card.
type Card struct {
	Brand, Last4      string
	ExpMonth, ExpYear int
}

// Create charges a payment. key identifies the payment: the same payment with the
// same key is charged once. replayed reports that the answer repeats an earlier one.
//
// If the error is ErrProcessing, or NotApplied or OutcomeUnknown report true for it,
// the same call may be repeated with the same key. Create returns ErrKeyConflict if
// the key belongs to another payment.
func (c *Client) Create(ctx context.Context, key string, p NewPayment) (made Payment, replayed bool, err error) {
	card := api.NewCard{Number: p.Card.Number, ExpMonth: p.Card.ExpMonth, ExpYear: p.Card.ExpYear, Cvc: p.Card.CVC}
	body := api.NewPayment{RideId: p.RideID, RiderId: p.RiderID, Amount: p.Amount, Currency: p.Currency, Card: card}
	answer, header, err := call.AnswerWithHeader[api.Payment](
		c.api.CreatePayment(ctx, &api.CreatePaymentParams{IdempotencyKey: call.Key(key)}, body))
	if err != nil {
		return Payment{}, false, err
	}
	return payment(answer), header.Get("Idempotent-Replayed") == "true", nil
}

// Get reads a payment. It returns ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, id string) (Payment, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		const detail = "a payment's id is a UUID"
		return Payment{}, &rowlock.Error{Code: rowlock.ErrInvalidField, Field: "id", Detail: detail, Read: true, Err: err}
	}
	found, err := call.Answer[api.Payment](c.api.GetPayment(ctx, parsed))
	return payment(found), err
}

// List reads a page of at most limit payments of a ride, newest first. after is
// empty for the first page, and then the previous page's next. next is empty on the
// last page.
func (c *Client) List(
	ctx context.Context, rideID string, limit int, after string,
) (page []Payment, next string, err error) {
	params := api.ListPaymentsParams{RideId: rideID, Limit: &limit}
	if after != "" {
		params.After = &after
	}

	found, err := call.Answer[api.PaymentList](c.api.ListPayments(ctx, &params))
	for i := range found.Payments {
		page = append(page, payment(found.Payments[i]))
	}
	return page, call.Value(found.NextAfter), err
}

func payment(p api.Payment) Payment {
	return Payment{
		ID: p.Id.String(), RideID: p.RideId, RiderID: p.RiderId, Amount: p.Amount, Currency: p.Currency,
		Status: Status(p.Status), DeclineCode: call.Value(p.DeclineCode), CreatedAt: p.CreatedAt,
		Card: Card{Brand: p.Card.Brand, Last4: p.Card.Last4, ExpMonth: p.Card.ExpMonth, ExpYear: p.Card.ExpYear},
	}
}
