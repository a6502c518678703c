package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The JSON bodies. Pointers tell an absent member from a zero one.
type (
	paymentRequest struct {
		RideID   *string      `json:"ride_id"`
		RiderID  *string      `json:"rider_id"`
		Amount   *int64       `json:"amount"`
		Currency *string      `json:"currency"`
		Card     *cardRequest `json:"card"`
	}
	cardRequest struct {
		Number   *string `json:"number"`
		ExpMonth *int64  `json:"exp_month"`
		ExpYear  *int64  `json:"exp_year"`
		CVC      *string `json:"cvc"`
	}
	paymentResponse struct {
		ID          string       `json:"id"`
		RideID      string       `json:"ride_id"`
		RiderID     string       `json:"rider_id"`
		Amount      int64        `json:"amount"`
		Currency    string       `json:"currency"`
		Status      string       `json:"status"`
		DeclineCode string       `json:"decline_code,omitempty"`
		Card        cardResponse `json:"card"`
		CreatedAt   string       `json:"created_at"`
	}
	cardResponse struct {
		Brand    string `json:"brand"`
		Last4    string `json:"last4"`
		ExpMonth int    `json:"exp_month"`
		ExpYear  int    `json:"exp_year"`
	}
	listResponse struct {
		Payments  []paymentResponse `json:"payments"`
		NextAfter string            `json:"next_after,omitempty"`
	}
)

// The names of the query's parameters beside ride_id.
const (
	fieldLimit = "limit"
	fieldAfter = "after"
)

// domain checks the members and makes a request of them.
func (b *paymentRequest) domain() (payment.Request, error) {
	for _, m := range []struct {
		name   string
		absent bool
	}{
		{"ride_id", b.RideID == nil},
		{"rider_id", b.RiderID == nil},
		{"amount", b.Amount == nil},
		{"currency", b.Currency == nil},
		{"card", b.Card == nil},
		{"card.number", b.Card != nil && b.Card.Number == nil},
		{"card.exp_month", b.Card != nil && b.Card.ExpMonth == nil},
		{"card.exp_year", b.Card != nil && b.Card.ExpYear == nil},
		{"card.cvc", b.Card != nil && b.Card.CVC == nil},
	} {
		if m.absent {
			return payment.Request{}, problem.InvalidField.New("The member "+m.name+" is missing.", problem.Field(m.name))
		}
	}
	card, err := payment.NewCard(*b.Card.Number, int(*b.Card.ExpMonth), int(*b.Card.ExpYear), *b.Card.CVC)
	if err != nil {
		return payment.Request{}, err
	}
	return payment.NewRequest(*b.RideID, *b.RiderID, *b.Amount, *b.Currency, card)
}

// timeLayout is RFC 3339 in UTC with microseconds, PostgreSQL's resolution.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func toResponse(p payment.Payment) paymentResponse {
	return paymentResponse{
		ID: string(p.ID), RideID: string(p.RideID), RiderID: p.RiderID, Amount: p.Amount, Currency: string(p.Currency),
		Status: string(p.Status), DeclineCode: p.DeclineCode,
		Card: cardResponse{
			Brand: p.Card.Brand, Last4: p.Card.Last4, ExpMonth: p.Card.ExpMonth, ExpYear: p.Card.ExpYear,
		},
		CreatedAt: p.CreatedAt.In(time.UTC).Format(timeLayout),
	}
}

// Encode returns the receipt of a payment: the status and the body that every request
// with its key is answered with. The body has the bytes that GET /v1/payments/{id}
// answers.
func Encode(p payment.Payment) (payment.Receipt, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(toResponse(p)); err != nil {
		return payment.Receipt{}, fmt.Errorf("encode the payment: %w", err)
	}
	return payment.Receipt{Code: http.StatusCreated, Data: body.Bytes()}, nil
}

// encodePosition returns a position as opaque text for next_after.
func encodePosition(p payment.Position) string {
	text := strconv.FormatInt(p.CreatedAt.UnixMicro(), 36) + "." + string(p.ID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

var errPosition = errors.New("not a position")

func decodePosition(s string) (*payment.Position, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, errPosition
	}
	micros, id, _ := strings.Cut(string(raw), ".")
	at, err := strconv.ParseInt(micros, 36, 64)
	if err != nil || at < 0 || at > maxMicros {
		return nil, errPosition
	}
	parsed, err := payment.ParseID(id)
	if err != nil {
		return nil, errPosition
	}
	return &payment.Position{CreatedAt: time.UnixMicro(at).UTC(), ID: parsed}, nil
}

// maxMicros is the end of the year 9999.
const maxMicros = 253402300799999999
