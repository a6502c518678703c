package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

type handlers struct {
	pay      payment.PayAPI
	payments payment.LookupAPI
}

// headerReplayed marks a stored answer.
const headerReplayed = "Idempotent-Replayed"

func (h handlers) create(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	var body paymentRequest
	if err := httpserver.DecodeJSON(r, &body); err != nil {
		return err
	}
	request, err := body.domain()
	if err != nil {
		return err
	}
	answer, err := h.pay.Pay(r.Context(), key, request)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Location", pathPayments+"/"+string(answer.PaymentID))
	if answer.Replayed {
		header.Set(headerReplayed, "true")
	}
	w.WriteHeader(answer.Receipt.Code)
	if _, err := w.Write(answer.Receipt.Data); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// idempotencyKey reads the header; there must be exactly one.
func idempotencyKey(r *http.Request) (payment.Key, error) {
	values := r.Header.Values(payment.FieldKey)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", keyRequired.New("The header Idempotency-Key is missing. Make up a new key for each payment, "+
			"such as a UUID, and send the same one whenever you repeat the request.", problem.Field(payment.FieldKey))
	case len(values) > 1:
		return "", problem.InvalidField.New("Idempotency-Key must be there once.", problem.Field(payment.FieldKey))
	}
	return payment.NewKey(values[0])
}

func (h handlers) get(w http.ResponseWriter, r *http.Request) error {
	raw, err := httpserver.PathParam(r, "id")
	if err != nil {
		return err
	}
	id, err := payment.ParseID(raw)
	if err != nil {
		return err
	}
	p, err := h.payments.Payment(r.Context(), id)
	if err != nil {
		return err
	}
	return httpserver.WriteJSON(w, http.StatusOK, toResponse(p))
}

func (h handlers) list(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		// The error repeats what was sent.
		return problem.InvalidField.New("The query is not well formed.", problem.Field(payment.FieldRideID))
	}
	ride, err := payment.NewRideID(query.Get(payment.FieldRideID))
	if err != nil {
		return err
	}
	limit := payment.DefaultPageSize
	if query.Has(fieldLimit) {
		if limit, err = strconv.Atoi(query.Get(fieldLimit)); err != nil {
			return problem.InvalidField.New("limit must be 1 to 100.", problem.Field(fieldLimit))
		}
	}
	var after *payment.Position
	if query.Get(fieldAfter) != "" {
		if after, err = decodePosition(query.Get(fieldAfter)); err != nil {
			return problem.InvalidField.New("after must be the next_after of an earlier answer.", problem.Field(fieldAfter))
		}
	}
	page, next, err := h.payments.PaymentsOfRide(r.Context(), ride, after, limit)
	if err != nil {
		return err
	}
	body := listResponse{Payments: make([]paymentResponse, len(page))}
	for i, p := range page {
		body.Payments[i] = toResponse(p)
	}
	if next != nil {
		body.NextAfter = encodePosition(*next)
	}
	return httpserver.WriteJSON(w, http.StatusOK, body)
}
