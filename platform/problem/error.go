package problem

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Error is one refusal: a row of the error table with its sentence. It is made
// by [Kind.New] and not changed afterwards, so it may be shared.
type Error struct {
	kind       Kind
	detail     string
	field      string
	cause      error
	header     http.Header
	retryAfter time.Duration
	stored     bool
}

// Option adds something to an [Error] while [Kind.New] makes it.
type Option func(*Error)

// Field names the member, parameter or path segment at fault as the client
// wrote it, for example "amount".
func Field(name string) Option { return func(e *Error) { e.field = name } }

// Cause sets the error behind this one, for errors.Is, errors.As and the log.
// It never reaches the client.
func Cause(err error) Option { return func(e *Error) { e.cause = err } }

// Stored marks an answer that later requests get again, byte for byte: its
// document has no trace id.
func Stored() Option { return func(e *Error) { e.stored = true } }

// RetryAfter sets when a repeat makes sense. The header counts whole seconds,
// so the duration is rounded up; zero or less is ignored.
func RetryAfter(d time.Duration) Option { return func(e *Error) { e.retryAfter = d } }

// Header adds a response header, such as Allow. A second value of the same key
// is added beside the first.
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

// Unwrap returns the cause, nil when there is none.
func (e *Error) Unwrap() error { return e.cause }

// Kind returns the row of the error table.
func (e *Error) Kind() Kind { return e.kind }

// Detail returns the sentence for the client.
func (e *Error) Detail() string { return e.detail }

// Field returns the name given by the option [Field], empty when there is none.
func (e *Error) Field() string { return e.field }

// RetryAfter returns how long a client should wait before a repeat; zero means that the answer has no Retry-After.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// jitter returns 1 to 3 seconds, which spreads the repeats of clients that were refused together.
func jitter() time.Duration {
	const longest = 3
	return time.Duration(1+rand.IntN(longest)) * time.Second
}
