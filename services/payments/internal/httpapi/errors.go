package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The service's own problem kinds, beside the platform's.
var (
	keyRequired      = problem.Define("IDEMPOTENCY_KEY_REQUIRED", http.StatusBadRequest, "Idempotency key required")
	keyConflict      = problem.Define("IDEMPOTENCY_KEY_CONFLICT", http.StatusConflict, "Idempotency key conflict")
	processing       = problem.Define("PAYMENT_PROCESSING", http.StatusConflict, "Payment is being processed")
	paymentNotFound  = problem.Define("PAYMENT_NOT_FOUND", http.StatusNotFound, "Payment not found")
	processorError   = problem.Define("PROCESSOR_ERROR", http.StatusBadGateway, "Payment processor error")
	processorTimeout = problem.Define("PROCESSOR_TIMEOUT", http.StatusGatewayTimeout, "Payment processor timeout")
)

// soon is when a repeat of a request whose twin is still running makes sense.
const soon = time.Second

// Problem is the table from the domain's sentinels to what the client sees. It
// returns nil for an error that is not the domain's.
func Problem(err error) *problem.Error {
	if bad, ok := errors.AsType[*payment.InvalidError](err); ok {
		return problem.InvalidField.New(bad.Error()+".", problem.Field(bad.Field), problem.Cause(err))
	}
	for _, row := range []struct {
		sentinel error
		kind     problem.Kind
		detail   string
		options  []problem.Option
	}{
		{
			payment.ErrKeyConflict, keyConflict, "This key was used for another request. This one did nothing. " +
				"A repeat must be sent exactly as the first time; another payment needs another key.",
			[]problem.Option{problem.Field(payment.FieldKey)},
		},
		{
			payment.ErrProcessing, processing, "A request with this key is still running. Repeat with the same key to get its answer.",
			[]problem.Option{problem.Field(payment.FieldKey), problem.RetryAfter(soon)},
		},
		{payment.ErrNotFound, paymentNotFound, "No payment has this id.", []problem.Option{problem.Field("id")}},
		{payment.ErrProcessorFault, processorError, "The payment processor failed. No payment is recorded, but the card may have been " +
			"charged: repeat with the same key, which charges no second time.", nil},
		{payment.ErrProcessorTimeout, processorTimeout, "The payment processor did not answer in time. No payment is recorded, but the " +
			"card may have been charged: repeat with the same key, which charges no second time.", nil},
		{payment.ErrOutcomeUnknown, problem.OutcomeUnknown, "The connection to the database was lost before it confirmed the payment. " +
			"Repeat with the same key: you get the one answer, and the card is charged once.", nil},
		{payment.ErrBusy, problem.Overloaded, "This replica has as many payments under way as it may. Nothing was done; try again.", nil},
		{payment.ErrForeignFingerprint, problem.NotApplied, "This replica cannot compare the request with the one that used the key. " +
			"Nothing was done; try again with the same key.", nil},
	} {
		if errors.Is(err, row.sentinel) {
			return row.kind.New(row.detail, append(row.options, problem.Cause(err))...)
		}
	}
	return nil
}
