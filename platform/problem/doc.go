// Package problem writes the errors of Rowlock's APIs as RFC 9457 problem details (application/problem+json), with a
// closed set of codes.
//
// A [Kind] is one row of the error table: a stable code such as NOT_FOUND, an HTTP status and a title. The rows that
// all services share are variables of this package. A service defines the others in its httpapi package, with [Define]
// for the rows and a [Table] that maps the domain's errors to them. [Kind.New] makes an [Error] of a row: it adds the
// sentence for the reader of the answer and, for the log only, the cause.
//
// Only the code, the title and the detail reach the client. The cause is kept for errors.Is, errors.As and the log, and
// is never written to a response.
//
// A status of 503 promises more than "try later": the request was not applied and is safe to repeat. An error that
// leaves the outcome open is [OutcomeUnknown], a 500, because proxies repeat requests after 502, 503 and 504. See the
// error table of the design.
package problem
