package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The problems that only this service has.
var (
	keyRequired      = problem.Define("IDEMPOTENCY_KEY_REQUIRED", http.StatusBadRequest, "Idempotency key required")
	keyConflict      = problem.Define("IDEMPOTENCY_KEY_CONFLICT", http.StatusConflict, "Idempotency key conflict")
	processing       = problem.Define("PAYMENT_PROCESSING", http.StatusConflict, "Payment is being processed")
	paymentNotFound  = problem.Define("PAYMENT_NOT_FOUND", http.StatusNotFound, "Payment not found")
	processorError   = problem.Define("PROCESSOR_ERROR", http.StatusBadGateway, "Payment processor error")
	processorTimeout = problem.Define("PROCESSOR_TIMEOUT", http.StatusGatewayTimeout, "Payment processor timeout")
)

const maybeCharged = "No payment is recorded, but the card may have been charged: " +
	"repeat with the same key, which does not charge again."

// ProblemOf returns the problem that tells the client about an error of the domain, and nil for any
// other error.
func ProblemOf(err error) *problem.Error {
	if bad, ok := errors.AsType[*payment.InvalidError](err); ok {
		return problem.InvalidField.New(bad.Error()+".", problem.Field(bad.Field), problem.Cause(err))
	}

	return problem.Table{
		{
			Err: payment.ErrKeyConflict, Kind: keyConflict, Field: payment.FieldKey,
			Detail: "This key was used for another request. This one did nothing. " +
				"A repeat must be sent exactly as the first time; another payment needs another key.",
		},
		{
			Err: payment.ErrProcessing, Kind: processing, Field: payment.FieldKey, RetryAfter: time.Second,
			Detail: "A request with this key is still running. Repeat with the same key to get its answer.",
		},
		{Err: payment.ErrNotFound, Kind: paymentNotFound, Detail: "No payment has this id.", Field: "id"},
		{
			Err: payment.ErrProcessorFault, Kind: processorError,
			Detail: "The payment processor failed. " + maybeCharged,
		},
		{
			Err: payment.ErrProcessorTimeout, Kind: processorTimeout,
			Detail: "The payment processor did not answer in time. " + maybeCharged,
		},
		{
			Err: payment.ErrOutcomeUnknown, Kind: problem.OutcomeUnknown,
			Detail: "The connection to the database was lost before it confirmed the payment. " +
				"Repeat with the same key: you get the one answer, and the card is charged once.",
		},
		{
			Err: payment.ErrForeignFingerprint, Kind: problem.NotApplied,
			Detail: "This replica cannot compare the request with the one that used the key. " +
				"Nothing was done; try again with the same key.",
		},
	}.Of(err)
}
