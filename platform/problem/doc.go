// Package problem writes the errors of Rowlock's APIs as RFC 9457 problem details (application/problem+json), with a
// closed set of codes.
//
// A [Kind] is one row of the error table: a stable code such as NOT_FOUND, its
// HTTP status and its title. The rows that every service shares are variables
// of this package; a service defines its own with [Define] in its httpapi
// package, so that the table can be read in one place, and a [Table] of the
// domain's errors that have them. [Kind.New] makes an
// [Error] of a row: it adds the sentence for the person who reads the answer
// and, for the log only, the cause.
//
// What reaches the client is the code, the title and the detail, nothing else.
// The cause is kept for errors.Is, errors.As and the log and is never written
// to a response.
//
// A status of 503 promises more than "try later": the request was surely not
// applied and is safe to repeat. An error that leaves the outcome open is
// [OutcomeUnknown], a 500, because proxies repeat 502, 503 and 504 by
// themselves. See the error table of the design.
package problem
