// Package pqerr reads errors of github.com/lib/pq. Only this package uses the
// driver's error type.
package pqerr

import (
	"errors"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// Facts holds the part of a server's answer that contains no values, so not DETAIL,
// HINT or CONTEXT, into which the server puts column values.
type Facts struct {
	// SQLState is the five characters of Appendix A of the PostgreSQL manual.
	SQLState string
	// Constraint is the name of the violated constraint, "" when there is none.
	Constraint string
	// Fatal says that the server ended the session with this answer.
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
		Fatal:      answer.Severity == pqerror.SeverityFatal || answer.Severity == pqerror.SeverityPanic,
	}, true
}

// Text returns err.Error() with the server's own message replaced by one without
// values, keeping what callers wrapped around it.
func Text(err error) string {
	text := err.Error()
	answer, ok := errors.AsType[*pq.Error](err)
	if !ok {
		return text
	}
	return strings.ReplaceAll(text, answer.Error(), message(answer))
}

// AbortedCommit reports whether the driver refused a COMMIT, and rolled back, because
// a statement of the transaction had failed before.
func AbortedCommit(err error) bool { return errors.Is(err, pq.ErrInFailedTransaction) }

// message returns the primary message of an answer, or the condition's name where the
// message quotes input: `invalid input syntax for type bigint: "..."`.
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

// quotesInput reports whether the primary messages of a class may repeat what a client
// sent: data exceptions, and errors raised by a schema's own functions.
func quotesInput(class pqerror.Class) bool { return class == "22" || class == "P0" }
