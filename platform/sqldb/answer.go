package sqldb

import (
	"errors"

	"github.com/rowlock/rowlock/platform/sqldb/mysqlerr"
	"github.com/rowlock/rowlock/platform/sqldb/pqerr"
)

// reply is a server's answer that is an error, whichever server it is.
type reply struct {
	reason     Reason
	sqlState   string
	constraint string
	// inDoubt tells that the answer is no proof that a COMMIT or an autocommit
	// statement was not applied.
	inDoubt bool
	// unknown is the answer that says itself that the outcome is open.
	unknown bool
}

// answered returns the server's answer in err's chain; false when there is none.
func answered(err error) (reply, bool) {
	if f, ok := pqerr.Inspect(err); ok {
		a := reply{reason: reasonOf(f.SQLState), sqlState: f.SQLState, constraint: f.Constraint, inDoubt: f.Fatal}
		a.unknown = f.SQLState == stateCompletionUnknown || f.SQLState == stateTransactionResolutionLost
		if _, outdated := errors.AsType[*outdatedError](err); outdated {
			a.reason = Outdated
		}
		return a, true
	}
	if f, ok := mysqlerr.Inspect(err); ok {
		return reply{reason: reasonOfNumber(f), sqlState: f.SQLState, constraint: f.Constraint, inDoubt: f.Fatal}, true
	}
	return reply{}, false
}

// loggable is what may be logged of an error.
func loggable(err error) string {
	if _, ok := mysqlerr.Inspect(err); ok {
		return mysqlerr.Text(err)
	}
	return pqerr.Text(err)
}

// reasonOfNumber sorts an answer of MySQL or MariaDB.
func reasonOfNumber(f mysqlerr.Facts) Reason {
	switch f.Number {
	case mysqlerr.LockDeadlock, mysqlerr.RecordChanged:
		return Serialization
	case mysqlerr.LockWaitTimeout, mysqlerr.LockNowait:
		return LockTimeout
	case mysqlerr.StatementTimeout, mysqlerr.QueryTimeout, mysqlerr.QueryInterrupted:
		return Timeout
	case mysqlerr.ConCount, mysqlerr.TooManyUserConns, mysqlerr.UserLimitReached:
		return Overloaded
	case mysqlerr.ServerShutdown, mysqlerr.ConnectionKilled, mysqlerr.IdleDisconnected, mysqlerr.OptionPrevents,
		mysqlerr.ReadOnlyMode, mysqlerr.ReadOnlyTransaction, mysqlerr.DiskFull, mysqlerr.OutOfResources, mysqlerr.RecordFileFull,
		mysqlerr.ErrorDuringCommit:
		return Connection
	}
	if len(f.SQLState) != len(stateQueryCanceled) {
		return Other
	}
	switch f.SQLState[:2] {
	case "08":
		return Connection
	case "23":
		return Constraint
	case "22":
		return Data
	}
	return Other
}

// errDoomed is a statement, or a COMMIT, of a transaction in which another one
// has failed. MySQL would go on: after a lost lock wait (1205) with the rest of
// the transaction, after a deadlock (1213) with nothing of it, each further
// statement committing by itself. PostgreSQL refuses (25P02), and so do we.
var errDoomed = errors.New("a statement of this transaction has failed before: it can only be rolled back")

// aborted tells that a COMMIT was refused because a statement of the transaction
// had failed before; it was rolled back.
func aborted(err error) bool { return errors.Is(err, errDoomed) || pqerr.AbortedCommit(err) }
