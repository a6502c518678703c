package rowlock

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code is the reason for an error: the code of a service's problem document, or
// one of the three codes that the clients add.
type Code string

// Error returns the code. With it a code is a sentinel for errors.Is.
func (c Code) Error() string { return string(c) }

// Codes of the clients.
const (
	// ErrUnreachable means that no connection could be made: nothing was sent.
	ErrUnreachable Code = "UNREACHABLE"
	// ErrAnswerLost means that the request was sent, or may have been, and no complete answer came.
	ErrAnswerLost Code = "ANSWER_LOST"
	// ErrBadAnswer means that the answer cannot be the service's; it may come from a proxy.
	ErrBadAnswer Code = "BAD_ANSWER"
)

// Codes of all services. A single service's codes are in its package.
const (
	ErrNotApplied          Code = "NOT_APPLIED"
	ErrDatabaseUnavailable Code = "DATABASE_UNAVAILABLE"
	ErrOverloaded          Code = "OVERLOADED"
	ErrOutcomeUnknown      Code = "OUTCOME_UNKNOWN"
	ErrInternal            Code = "INTERNAL"
	ErrInvalidJSON         Code = "INVALID_JSON"
	ErrInvalidField        Code = "INVALID_FIELD"
	// ErrUnauthenticated means that the token is missing or invalid, or that WithTokenFile could not read it.
	ErrUnauthenticated Code = "UNAUTHENTICATED"
	// ErrForbidden means that the policy of the service does not allow the call.
	ErrForbidden            Code = "FORBIDDEN"
	ErrCrossSite            Code = "CROSS_SITE"
	ErrNotFound             Code = "NOT_FOUND"
	ErrMethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	ErrBodyTooLarge         Code = "BODY_TOO_LARGE"
	ErrUnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
)

// Error describes a failed call.
type Error struct {
	// Code is for the program.
	Code Code
	// Status is the HTTP status; 0 without an answer, and in package pyggpot.
	Status int
	// Field names the member, parameter or header at fault, if there is one.
	Field string
	// Detail is a sentence for people.
	Detail string
	// TraceID identifies the service's trace of the request, if it has one.
	TraceID string
	// RetryAfter is the wait that the service asks for before a repeat; 0: it asks for none.
	RetryAfter time.Duration
	// Read says that the call only reads.
	Read bool
	// Repeat says that the code, a single service's, means that the call was not applied and may be repeated.
	Repeat bool
	// Err is the error of the HTTP client or of Connect, or nil.
	Err error
}

// Error returns code, status and detail in one line.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s: %s", e.Code, e.Detail)
	}
	return fmt.Sprintf("%s (%d): %s", e.Code, e.Status, e.Detail)
}

// Unwrap returns Err, so that errors.Is finds, for example, context.Canceled.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// NotApplied reports whether err says that a call was not applied and may be
// repeated as it is.
func NotApplied(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case ErrUnreachable, ErrNotApplied, ErrDatabaseUnavailable, ErrOverloaded:
		return true
	default:
		return e.Repeat || e.Read && e.open()
	}
}

// OutcomeUnknown reports whether err says that a change may or may not have been
// applied. A payment, or a change of counts with the caller's key, may still be
// repeated with the same key.
func OutcomeUnknown(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && !e.Read && !NotApplied(err) && e.open()
}

// open reports whether the error leaves open what the service did.
func (e *Error) open() bool {
	switch e.Code {
	case ErrAnswerLost, ErrBadAnswer, ErrOutcomeUnknown, ErrInternal:
		return true
	default:
		return e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented
	}
}
