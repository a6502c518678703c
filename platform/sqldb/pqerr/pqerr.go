// Package pqerr reads errors of github.com/lib/pq. It is the only place that
// knows the driver's error type, so that an engine with another driver needs a
// sibling of this package and nothing else.
package pqerr

import (
	"errors"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// Facts is the part of a server's answer that may be logged. It never holds
// DETAIL, HINT or CONTEXT: the server puts column values into them.
type Facts struct {
	// SQLState is the five characters of Appendix A of the PostgreSQL manual.
	SQLState string
	// Constraint is the name of the violated constraint, "" when there is none.
	Constraint string
	// Message is the primary message, or the condition's name where the primary
	// message quotes input: `invalid input syntax for type bigint: "..."`.
	Message string
	// Fatal tells that the server ended the session with this answer.
	Fatal bool
}

// Inspect returns the facts of the server's answer in err's chain; false when
// the error is not an answer of the server.
func Inspect(err error) (Facts, bool) {
	answer, ok := errors.AsType[*pq.Error](err)
	if !ok {
		return Facts{}, false
	}
	return Facts{
		SQLState:   string(answer.Code),
		Constraint: answer.Constraint,
		Message:    message(answer),
		Fatal:      answer.Severity == pqerror.SeverityFatal || answer.Severity == pqerror.SeverityPanic,
	}, true
}

// Text is err.Error() with the server's own message replaced by the one of
// [Inspect], so that what a caller wrapped around it is kept.
func Text(err error) string {
	text := err.Error()
	answer, ok := errors.AsType[*pq.Error](err)
	if !ok {
		return text
	}
	return strings.ReplaceAll(text, answer.Error(), message(answer))
}

// AbortedCommit tells whether a COMMIT was refused by the driver because a
// statement of the transaction had failed before; it was rolled back.
func AbortedCommit(err error) bool { return errors.Is(err, pq.ErrInFailedTransaction) }

// message is the text of the answer that holds names, never values.
func message(answer *pq.Error) string {
	text := answer.Message
	switch {
	case len(answer.Code) != len("00000"):
		text = "malformed error of the server"
	case quotesInput(answer.Code.Class()):
		text = strings.ReplaceAll(answer.Code.Name(), "_", " ")
	}
	return text + " (" + string(answer.Code) + ")"
}

// quotesInput names the classes whose primary message may repeat what a client
// sent: data exceptions, and errors raised by a schema's own functions.
func quotesInput(class pqerror.Class) bool { return class == "22" || class == "P0" }
