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
	// Connection is a database that cannot be reached, refuses the login or to work (starting,
	// stopping, read only, out of disk or of another resource) or went away before it answered.
	Connection
	// Denied is a right that the role lacks (42501).
	Denied
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
	// Data is a value that the server refuses (class 22).
	Data
)

func (r Reason) String() string {
	return [...]string{
		Other: "other", Connection: "connection", Denied: "denied", Overloaded: "overloaded", Serialization: "serialization",
		Outdated: "outdated", LockTimeout: "lock_timeout", Timeout: "timeout", Canceled: "canceled",
		Constraint: "constraint", Data: "data",
	}[r]
}
