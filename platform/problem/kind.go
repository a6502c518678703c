package problem

import (
	"cmp"
	"net/http"
)

// Kind is one row of the error table: a code, its status and its title. The
// zero Kind is not a row; rows come from this package's variables and from
// [Define]. Kinds are comparable: two rows are equal if all three parts are.
type Kind struct {
	code   string
	title  string
	status int
}

// The rows that all services share.
var (
	// InvalidJSON means that the body is not the expected JSON.
	InvalidJSON = Define("INVALID_JSON", http.StatusBadRequest, "")
	// InvalidField means that one member, parameter or path segment is wrong; name it with [Field].
	InvalidField = Define("INVALID_FIELD", http.StatusBadRequest, "")
	// Unauthenticated means that the token is missing or invalid. It needs the header WWW-Authenticate.
	Unauthenticated = Define("UNAUTHENTICATED", http.StatusUnauthorized, "")
	// Forbidden means that the policy does not allow the request to its caller.
	Forbidden = Define("FORBIDDEN", http.StatusForbidden, "")
	// CrossSite means that a browser sent a change for a page of another origin.
	CrossSite = Define("CROSS_SITE", http.StatusForbidden, "")
	// NotFound means that no route serves the path. A missing thing has its own code, <THING>_NOT_FOUND.
	NotFound = Define("NOT_FOUND", http.StatusNotFound, "")
	// MethodNotAllowed needs the header Allow; add it with [Header].
	MethodNotAllowed = Define("METHOD_NOT_ALLOWED", http.StatusMethodNotAllowed, "")
	// BodyTooLarge means that the body is larger than MAX_BODY.
	BodyTooLarge = Define("BODY_TOO_LARGE", http.StatusRequestEntityTooLarge, "")
	// UnsupportedMediaType means that the route does not accept the Content-Type.
	UnsupportedMediaType = Define("UNSUPPORTED_MEDIA_TYPE", http.StatusUnsupportedMediaType, "")
	// NotApplied means that a change was tried and left no trace, for instance after a lock timeout. Safe to repeat.
	NotApplied = Define("NOT_APPLIED", http.StatusServiceUnavailable, "")
	// DatabaseUnavailable means that the database cannot be reached or used; nothing was applied. Safe to repeat.
	DatabaseUnavailable = Define("DATABASE_UNAVAILABLE", http.StatusServiceUnavailable, "")
	// Overloaded means that the request was refused before any work; nothing was applied. Safe to repeat.
	Overloaded = Define("OVERLOADED", http.StatusServiceUnavailable, "")
	// OutcomeUnknown means that the change may or may not have been applied. Repeating it may apply it twice.
	OutcomeUnknown = Define("OUTCOME_UNKNOWN", http.StatusInternalServerError, "")
	// Internal means that there is a bug. No other kind is a plain 500.
	Internal = Define("INTERNAL", http.StatusInternalServerError, "")
)

// Define returns a row of the error table. The code consists of upper-case letters, digits and underscores; the status
// is 400 to 599. An empty title selects the phrase of the status, as RFC 9457 section 4.2.1 recommends for problems of
// type about:blank.
func Define(code string, status int, title string) Kind {
	return Kind{code: code, title: cmp.Or(title, http.StatusText(status)), status: status}
}

// Code returns the stable name that clients switch on, such as NOT_FOUND.
func (k Kind) Code() string { return k.code }

// Status returns the HTTP status, 400 to 599.
func (k Kind) Status() int { return k.status }

// New returns an error of this row. The detail is a sentence for the reader of
// the answer, by default the title. It goes to the client: never build it from
// the text of another error.
//
// An error with status 503 always carries Retry-After: the one from
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
