package targets

import (
	"errors"
	"net"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/payments"
)

// Outcome says what a client knows of an operation that has returned.
type Outcome uint8

// The outcomes.
const (
	// OK: applied, with the result that the client was given.
	OK Outcome = iota
	// Refused: not applied, and a repeat is refused too (a conflict, a missing thing).
	Refused
	// NotApplied: surely not applied, and safe to repeat.
	NotApplied
	// Unknown: applied or not; the answer was lost.
	Unknown
)

// String returns the outcome's name in reports.
func (o Outcome) String() string {
	return [...]string{"ok", "refused", "not applied", "unknown"}[o]
}

// Classify returns the outcome of an operation whose client returned err, and the
// error's code, which is empty for OK. A read has no outcome Unknown: when its
// answer is lost, nothing was applied. A payment whose key is held by another
// request is NotApplied by this one.
func Classify(err error) (outcome Outcome, code string) {
	if err == nil {
		return OK, ""
	}
	if e, ok := errors.AsType[*rowlock.Error](err); ok {
		code = string(e.Code)
	}
	switch {
	case rowlock.NotApplied(err), errors.Is(err, payments.ErrProcessing):
		return NotApplied, code
	case rowlock.OutcomeUnknown(err), code == "":
		return Unknown, code
	default:
		return Refused, code
	}
}

// reason returns the code of an error and, where there was no answer, what
// happened, without addresses, so that equal ones count together.
func reason(err error) string {
	_, code := Classify(err)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return code + ": " + op.Op + ": " + op.Err.Error()
	}
	if cause := errors.Unwrap(err); cause != nil && errors.Is(err, rowlock.ErrAnswerLost) {
		for next := cause; next != nil; next = errors.Unwrap(next) {
			cause = next
		}
		return code + ": " + cause.Error()
	}
	return code
}
