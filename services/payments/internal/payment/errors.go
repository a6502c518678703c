package payment

import "errors"

// The sentinels that the ports return, beside an [InvalidError]. An error that is none of them comes from an
// adapter's technology and passes through the domain unchanged.
var (
	// ErrKeyConflict reports that the key belongs to a request with other content.
	ErrKeyConflict = errors.New("the idempotency key belongs to another request")
	// ErrProcessing reports that another request with the key is still running.
	ErrProcessing = errors.New("a request with this idempotency key is still running")
	// ErrProcessorFault reports an error of the processor. Whether it charged is
	// unknown until the request is repeated with the same key.
	ErrProcessorFault = errors.New("the payment processor failed")
	// ErrNotCharged reports that the processor has neither charged nor declined under
	// the key: it was asked for what there is, or, together with ErrProcessorFault, it
	// failed and said so.
	ErrNotCharged = errors.New("the processor has no answer for this key")
	// ErrProcessorTimeout reports that the processor did not answer in time. Whether
	// it charged is unknown until the request is repeated with the same key.
	ErrProcessorTimeout = errors.New("the payment processor did not answer in time")
	// ErrOutcomeUnknown reports that the processor may have charged and that it is
	// not known whether the payment was recorded. A repeat with the same key
	// settles it.
	ErrOutcomeUnknown = errors.New("it is not known whether the payment was recorded")
	// ErrForeignFingerprint reports that this replica cannot compare the stored
	// fingerprint: it has no secret, or not the one that the fingerprint names, or the
	// version is of a later release. Nothing was done.
	ErrForeignFingerprint = errors.New("the stored fingerprint is of a version or secret that this replica does not have")
	// ErrNotFound reports that no payment has the id.
	ErrNotFound = errors.New("there is no such payment")
)

// InvalidError names the field that breaks a rule, and the rule, in words that never
// repeat the value.
type InvalidError struct {
	// Field is the member's path, such as "card.number".
	Field string
	// Rule completes a sentence that begins with the field.
	Rule string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

func invalid(field, rule string) error { return &InvalidError{Field: field, Rule: rule} }
