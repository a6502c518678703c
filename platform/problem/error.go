package problem

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Error is one refusal: a row of the error table with its sentence. [Kind.New]
// makes it. It is immutable and may be shared.
type Error struct {
	kind       Kind
	detail     string
	field      string
	cause      error
	header     http.Header
	retryAfter time.Duration
	stored     bool
}

// Option sets an optional part of an [Error] in [Kind.New].
type Option func(*Error)

// Field names the member, parameter or path segment at fault, as the client
// wrote it: "amount".
func Field(name string) Option { return func(e *Error) { e.field = name } }

// Cause sets the error behind this one, for errors.Is, errors.As and the log.
// It never reaches the client.
func Cause(err error) Option { return func(e *Error) { e.cause = err } }

// Stored marks an answer that later requests get again, byte for byte: it has no
// trace id.
func Stored() Option { return func(e *Error) { e.stored = true } }

// RetryAfter sets when a repeat makes sense. It is rounded up to whole seconds;
// zero or less is ignored.
func RetryAfter(d time.Duration) Option { return func(e *Error) { e.retryAfter = d } }

// Header adds a response header, such as Allow. It keeps earlier values of the
// same key.
func Header(key, value string) Option {
	return func(e *Error) {
		if e.header == nil {
			e.header = make(http.Header, 1)
		}
		e.header.Add(key, value)
	}
}

// Error returns the text for the log: the code, the detail and the cause.
func (e *Error) Error() string {
	text := e.kind.code + ": " + e.detail
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the cause; nil if there is none.
func (e *Error) Unwrap() error { return e.cause }

// Kind returns the row of the error table.
func (e *Error) Kind() Kind { return e.kind }

// Detail returns the sentence for the client.
func (e *Error) Detail() string { return e.detail }

// Field returns the name that [Field] set; empty if there is none.
func (e *Error) Field() string { return e.field }

// RetryAfter returns how long a client should wait before a repeat; zero: the answer has no Retry-After.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// jitter returns 1 to 3 seconds, to spread the repeats of clients that were refused together.
func jitter() time.Duration {
	const longest = 3
	return time.Duration(1+rand.IntN(longest)) * time.Second
}
