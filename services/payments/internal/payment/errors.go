package payment

import "errors"

// The errors that the ports return, besides an [InvalidError]. Any other error comes from an adapter and passes through
// the domain unchanged.
var (
	// ErrKeyConflict says that the key belongs to a request with other content.
	ErrKeyConflict = errors.New("the idempotency key belongs to another request")
	// ErrProcessing says that another request with the key is still running.
	ErrProcessing = errors.New("a request with this idempotency key is still running")
	// ErrProcessorFault says that the processor failed. Whether it charged is unknown
	// until the request is repeated with the same key.
	ErrProcessorFault = errors.New("the payment processor failed")
	// ErrNotCharged says that the processor has neither charged nor declined under the
	// key, in answer to a look-up; or, together with ErrProcessorFault, that it failed
	// and charged nothing.
	ErrNotCharged = errors.New("the processor has no answer for this key")
	// ErrProcessorTimeout says that the processor did not answer in time. Whether it
	// charged is unknown until the request is repeated with the same key.
	ErrProcessorTimeout = errors.New("the payment processor did not answer in time")
	// ErrOutcomeUnknown says that the processor may have charged, and that it is not
	// known whether the payment was recorded. A repeat with the same key settles it.
	ErrOutcomeUnknown = errors.New("it is not known whether the payment was recorded")
	// ErrForeignFingerprint says that this replica cannot compare the stored
	// fingerprint: it lacks the secret, or the version is from a later release. Nothing
	// was done.
	ErrForeignFingerprint = errors.New("the stored fingerprint needs a version or secret that this replica does not have")
	// ErrNotFound says that no payment has the id.
	ErrNotFound = errors.New("there is no such payment")
)

// InvalidError names the field that breaks a rule, and the rule. It never repeats the
// value.
type InvalidError struct {
	// Field is the path of the member, such as "card.number".
	Field string
	// Rule completes the sentence that begins with Field.
	Rule string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

func invalid(field, rule string) error { return &InvalidError{Field: field, Rule: rule} }
