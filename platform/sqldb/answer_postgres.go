package sqldb

import (
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// SQLSTATEs that the package acts on, by the names of Appendix A of the
// PostgreSQL manual.
const (
	stateFeatureNotSupported       = "0A000"
	stateUniqueViolation           = "23505"
	stateReadOnlyTransaction       = "25006"
	stateIdleInTransactionTimeout  = "25P03"
	stateInvalidStatementName      = "26000"
	stateSerializationFailure      = "40001"
	stateCompletionUnknown         = "40003"
	stateDeadlockDetected          = "40P01"
	stateTransactionResolutionLost = "08007"
	stateTooManyConnections        = "53300"
	stateLockNotAvailable          = "55P03"
	stateQueryCanceled             = "57014"
	stateDatabaseDropped           = "57P04"
)

// postgresReply classifies an answer of PostgreSQL. One that ends the session (FATAL)
// proves nothing about a COMMIT.
func postgresReply(answer *pq.Error) reply {
	state := string(answer.Code)
	return reply{
		reason:     reasonOf(state),
		sqlState:   state,
		constraint: answer.Constraint,
		inDoubt:    answer.Severity == pqerror.SeverityFatal || answer.Severity == pqerror.SeverityPanic,
		unknown:    state == stateCompletionUnknown || state == stateTransactionResolutionLost,
		readOnly:   state == stateReadOnlyTransaction,
	}
}

// reasonOf returns the reason of a SQLSTATE of PostgreSQL.
func reasonOf(state string) Reason {
	switch state {
	case stateSerializationFailure, stateDeadlockDetected:
		return Serialization
	case stateLockNotAvailable:
		return LockTimeout
	case stateQueryCanceled:
		return Timeout
	case stateTooManyConnections:
		return Overloaded
	case stateReadOnlyTransaction, stateIdleInTransactionTimeout:
		return Connection
	case stateDatabaseDropped:
		return Other
	}
	switch class(state) {
	case "08", "53", "57", "58": // connection, insufficient resources, operator intervention, system error
		return Connection
	case "23":
		return Constraint
	case "22", "54":
		return Data
	}
	return Other
}

// class returns the first two of a SQLSTATE's five characters, "" when it is malformed.
func class(state string) string {
	if len(state) != len(stateQueryCanceled) {
		return ""
	}
	return state[:2]
}

// postgresMessage returns the primary message of an answer, or the condition's name
// where the message may repeat what a client sent: data exceptions (`invalid input
// syntax for type bigint: "..."`), and errors raised by a schema's own functions.
func postgresMessage(answer *pq.Error) string {
	text := answer.Message
	switch class(string(answer.Code)) {
	case "":
		text = "malformed error of the server"
	case "22", "P0":
		text = strings.ReplaceAll(answer.Code.Name(), "_", " ")
	}
	return text + " (" + string(answer.Code) + ")"
}
