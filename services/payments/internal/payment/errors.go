package payment

import "errors"

// The sentinels that the ports answer with. An error that is none of them comes
// from an adapter's technology and passes through the domain unchanged.
var (
	// ErrInvalid says that a value breaks a rule; the error is an [InvalidError],
	// which names the field.
	ErrInvalid = errors.New("the request is not valid")
	// ErrKeyConflict says that the key belongs to a request with other content.
	ErrKeyConflict = errors.New("the idempotency key belongs to another request")
	// ErrProcessing says that another request with the key is still running.
	ErrProcessing = errors.New("a request with this idempotency key is still running")
	// ErrBusy says that the replica has as many payments under way as it may.
	// Nothing was done.
	ErrBusy = errors.New("too many payments are under way")
	// ErrProcessorFault says that the processor answered with an error. Whether
	// it charged is open until the request is repeated with the same key.
	ErrProcessorFault = errors.New("the payment processor failed")
	// ErrNotCharged is a processor's answer to Charge.OnlyRepeat for a key that it
	// does not know.
	ErrNotCharged = errors.New("the processor has no answer for this key")
	// ErrProcessorTimeout says that the processor did not answer in time. Whether
	// it charged is open until the request is repeated with the same key.
	ErrProcessorTimeout = errors.New("the payment processor did not answer in time")
	// ErrOutcomeUnknown says that the processor may have charged, but that it is
	// not known whether the payment was recorded. A repeat with the same key
	// settles it.
	ErrOutcomeUnknown = errors.New("it is not known whether the payment was recorded")
	// ErrForeignFingerprint says that the stored request was fingerprinted with a
	// secret that this replica does not have. Nothing was done.
	ErrForeignFingerprint = errors.New("the stored fingerprint was made with a secret that is not configured here")
	// ErrNotFound says that there is no such payment or no such live key.
	ErrNotFound = errors.New("there is no such payment")
)

// InvalidError says which field breaks a rule, and which rule, in words that
// never repeat the value. It is ErrInvalid.
type InvalidError struct {
	// Field is the member's path, such as "card.number".
	Field string
	// Rule is the rest of a sentence that begins with the field.
	Rule string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

// Is makes the error an ErrInvalid.
func (*InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, rule string) error { return &InvalidError{Field: field, Rule: rule} }
