package sqldb

import (
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// SQLSTATEs that the package acts on, by the names of Appendix A of the
// PostgreSQL manual.
const (
	stateFeatureNotSupported  = "0A000"
	stateReadOnlyTransaction  = "25006"
	stateInvalidStatementName = "26000"
	stateSerializationFailure = "40001"
	stateDeadlockDetected     = "40P01"
	stateLockNotAvailable     = "55P03"
	stateQueryCanceled        = "57014"
)

// postgresReply classifies an answer of PostgreSQL. One that ends the session proves
// nothing about a COMMIT.
func postgresReply(answer *pq.Error) reply {
	state := string(answer.Code)
	return reply{
		reason:     reasonOf(state),
		sqlState:   state,
		constraint: answer.Constraint,
		inDoubt:    endsSession(answer),
		unknown:    state == "40003" || state == "08007", // statement completion, transaction resolution unknown
		readOnly:   state == stateReadOnlyTransaction,
		refused:    refusesLogin(state),
	}
}

// refusesLogin reports whether the answer to a login names what waiting does not repair. Poolers answer with other
// states, such as XX000, when their own trouble may pass.
func refusesLogin(state string) bool {
	switch class(state) {
	case "28", "3D", "42", "0A", "22": // login, database, right to connect, feature, value of a setting
		return true
	}
	return false
}

// endsSession reports whether an answer ends the session. Its severity is in the language of the server's lc_messages,
// and the driver drops the field that never is, so for a foreign text the state decides.
func endsSession(answer *pq.Error) bool {
	switch answer.Severity {
	case "ERROR":
		return false
	case pqerror.SeverityFatal, pqerror.SeverityPanic:
		return true
	}

	state := string(answer.Code)
	switch class(state) {
	case "58", "XX": // system error, internal error
		return true
	}
	return strings.HasPrefix(state, "57P") || state == "25P03" || state == "25P04" // timeouts of the transaction
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
	case "42501": // insufficient privilege
		return Denied
	case "53300": // too many connections
		return Overloaded
	case stateReadOnlyTransaction, "25P03", "25P04": // idle_in_transaction_session_timeout, transaction_timeout
		return Connection
	case "57P04": // database dropped
		return Other
	}

	switch class(state) {
	// Connection, insufficient resources, program limit, operator intervention, system error. No accepted request
	// exceeds a program limit, but a server that runs out of transaction ids refuses all changes with one (54000).
	case "08", "53", "54", "57", "58":
		return Connection
	case "23":
		return Constraint
	case "22":
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
