package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
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

// retryProcessing is the Retry-After of PAYMENT_PROCESSING.
const retryProcessing = time.Second

const maybeCharged = "No payment is recorded, but the card may have been charged: " +
	"repeat with the same key, which charges no second time."

// ProblemOf maps the errors of the domain, and of the queue in front of a key, to what the
// client gets. It returns nil for any other error.
func ProblemOf(err error) *problem.Error {
	if bad, ok := errors.AsType[*payment.InvalidError](err); ok {
		return problem.InvalidField.New(bad.Error()+".", problem.Field(bad.Field), problem.Cause(err))
	}
	for _, row := range []struct {
		matches bool
		kind    problem.Kind
		detail  string
		options []problem.Option
	}{
		{
			errors.Is(err, payment.ErrKeyConflict), keyConflict,
			"This key was used for another request. This one did nothing. " +
				"A repeat must be sent exactly as the first time; another payment needs another key.",
			[]problem.Option{problem.Field(payment.FieldKey)},
		},
		{
			errors.Is(err, payment.ErrProcessing) || waitedForKey(err), processing,
			"A request with this key is still running. Repeat with the same key to get its answer.",
			[]problem.Option{problem.Field(payment.FieldKey), problem.RetryAfter(retryProcessing)},
		},
		{
			errors.Is(err, bulkhead.ErrBusy), problem.Overloaded,
			"This replica has as many payments in flight as it may. Nothing was done; try again.", nil,
		},
		{
			errors.Is(err, payment.ErrNotFound), paymentNotFound,
			"No payment has this id.",
			[]problem.Option{problem.Field("id")},
		},
		{
			errors.Is(err, payment.ErrProcessorFault), processorError,
			"The payment processor failed. " + maybeCharged, nil,
		},
		{
			errors.Is(err, payment.ErrProcessorTimeout), processorTimeout,
			"The payment processor did not answer in time. " + maybeCharged, nil,
		},
		{
			errors.Is(err, payment.ErrOutcomeUnknown), problem.OutcomeUnknown,
			"The connection to the database was lost before it confirmed the payment. " +
				"Repeat with the same key: you get the one answer, and the card is charged once.", nil,
		},
		{
			errors.Is(err, payment.ErrForeignFingerprint), problem.NotApplied,
			"This replica cannot compare the request with the one that used the key. " +
				"Nothing was done; try again with the same key.", nil,
		},
	} {
		if row.matches {
			return row.kind.New(row.detail, append(row.options, problem.Cause(err))...)
		}
	}
	return nil
}

// waitedForKey reports whether a request has waited LOCK_WAIT for another one with its
// key on this replica.
func waitedForKey(err error) bool {
	return errors.Is(err, bulkhead.ErrBusy) && !errors.Is(err, bulkhead.ErrFull) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
