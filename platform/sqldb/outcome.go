package sqldb

// Outcome says whether a change was made whose call returned an error.
type Outcome uint8

// The outcomes. Unknown is the zero value.
const (
	// Unknown means that the change may or may not have been made.
	Unknown Outcome = iota
	// NotApplied is certain: the change was not made and may be tried again.
	NotApplied
)

func (o Outcome) String() string {
	if o == NotApplied {
		return "not applied"
	}
	return "outcome unknown"
}

// Reason says why a call failed. The set is closed, so that it can be a metric's
// label.
type Reason uint8

// The reasons.
const (
	// Other is an answer of the server that points at a mistake in the program.
	Other Reason = iota
	// Connection is a database that cannot be reached, refuses to work (starting,
	// stopping, read only, out of disk) or went away before it answered.
	Connection
	// Overloaded is a server or a pool without a free connection.
	Overloaded
	// Serialization is a deadlock or a serialization failure (40P01, 40001).
	Serialization
	// Outdated is a prepared statement made invalid by a migration. The connection
	// is closed; the next attempt prepares the statement again.
	Outdated
	// LockTimeout is a lock that did not come free within lock_timeout (55P03).
	LockTimeout
	// Timeout is statement_timeout or the context's deadline.
	Timeout
	// Canceled is a context that was cancelled.
	Canceled
	// Constraint is a violated constraint (class 23).
	Constraint
	// Data is a value that the server refuses (classes 22 and 54).
	Data
)

func (r Reason) String() string {
	return [...]string{
		Other: "other", Connection: "connection", Overloaded: "overloaded", Serialization: "serialization",
		Outdated: "outdated", LockTimeout: "lock_timeout", Timeout: "timeout", Canceled: "canceled",
		Constraint: "constraint", Data: "data",
	}[r]
}

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
	stateGeneralError              = "HY000" // MySQL's, for what has no SQLSTATE of its own
)

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
	if len(state) != len(stateQueryCanceled) {
		return Other
	}
	switch state[:2] {
	case "08", "53", "57", "58": // connection, insufficient resources, operator intervention, system error
		return Connection
	case "23":
		return Constraint
	case "22", "54":
		return Data
	}
	return Other
}
