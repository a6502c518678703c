package problem

import (
	"cmp"
	"net/http"
)

// Kind is one row of the error table: a code, its status and its title. The
// zero Kind is not a row; rows come from this package's variables and from
// [Define]. Kinds are comparable: two rows are the same when all three agree.
type Kind struct {
	code   string
	title  string
	status int
}

// The rows that every service shares.
var (
	// InvalidJSON is a body that is not the JSON asked for.
	InvalidJSON = Define("INVALID_JSON", http.StatusBadRequest, "")
	// InvalidField is one member, parameter or path segment at fault; name it with [Field].
	InvalidField = Define("INVALID_FIELD", http.StatusBadRequest, "")
	// Unauthenticated is a request without a token, or with one that is not good. It needs the header WWW-Authenticate.
	Unauthenticated = Define("UNAUTHENTICATED", http.StatusUnauthorized, "")
	// Forbidden is a request that the policy does not allow to its caller.
	Forbidden = Define("FORBIDDEN", http.StatusForbidden, "")
	// CrossSite is a change that a browser sends for a page of another origin.
	CrossSite = Define("CROSS_SITE", http.StatusForbidden, "")
	// NotFound is a path that no route serves. A missing thing has a code of its own, <THING>_NOT_FOUND.
	NotFound = Define("NOT_FOUND", http.StatusNotFound, "")
	// MethodNotAllowed needs the header Allow; add it with [Header].
	MethodNotAllowed = Define("METHOD_NOT_ALLOWED", http.StatusMethodNotAllowed, "")
	// BodyTooLarge is a body above MAX_BODY.
	BodyTooLarge = Define("BODY_TOO_LARGE", http.StatusRequestEntityTooLarge, "")
	// UnsupportedMediaType is a Content-Type that the route does not read.
	UnsupportedMediaType = Define("UNSUPPORTED_MEDIA_TYPE", http.StatusUnsupportedMediaType, "")
	// NotApplied is a change that was tried and surely left no trace, a lock timeout for one. Safe to repeat.
	NotApplied = Define("NOT_APPLIED", http.StatusServiceUnavailable, "")
	// DatabaseUnavailable is a database that could not be reached; nothing was applied. Safe to repeat.
	DatabaseUnavailable = Define("DATABASE_UNAVAILABLE", http.StatusServiceUnavailable, "")
	// Overloaded is a request that was refused before any work; nothing was applied. Safe to repeat.
	Overloaded = Define("OVERLOADED", http.StatusServiceUnavailable, "")
	// OutcomeUnknown is a change that may or may not have been applied. Repeating it may apply it twice.
	OutcomeUnknown = Define("OUTCOME_UNKNOWN", http.StatusInternalServerError, "")
	// Internal is a bug. Nothing else is a plain 500.
	Internal = Define("INTERNAL", http.StatusInternalServerError, "")
)

// Define returns a row of the error table: a code of upper case letters, digits and underscores, and a status of 400 to
// 599. An empty title stands for the status' own phrase, which RFC 9457 section 4.2.1 recommends for problems of type
// about:blank.
func Define(code string, status int, title string) Kind {
	return Kind{code: code, title: cmp.Or(title, http.StatusText(status)), status: status}
}

// Code returns the stable name that clients switch on, such as NOT_FOUND.
func (k Kind) Code() string { return k.code }

// Status returns the HTTP status, 400 to 599.
func (k Kind) Status() int { return k.status }

// New returns an error of this row. The detail is a sentence for the person who
// reads the answer; an empty one stands for the title. It goes to the client:
// never build it from the text of another error.
//
// An error whose status is 503 always carries Retry-After: the one given by
// [RetryAfter], else 1 to 3 seconds at random, so that clients refused
// together do not return together.
func (k Kind) New(detail string, opts ...Option) *Error {
	e := &Error{kind: k, detail: cmp.Or(detail, k.title)}
	for _, opt := range opts {
		opt(e)
	}
	if e.retryAfter <= 0 && k.status == http.StatusServiceUnavailable {
		e.retryAfter = jitter()
	}
	return e
}
