package sqldb

import (
	"errors"

	"github.com/rowlock/rowlock/platform/sqldb/mysqlerr"
	"github.com/rowlock/rowlock/platform/sqldb/pqerr"
)

// reply is an error that a server answered with, of either engine.
type reply struct {
	reason     Reason
	sqlState   string
	constraint string
	// inDoubt says that the answer does not prove that a COMMIT or an autocommit
	// statement was not applied.
	inDoubt bool
	// unknown says that the answer itself declares the outcome unknown.
	unknown bool
}

// answered returns the server's answer in err's chain; false when there is none.
func answered(err error) (reply, bool) {
	if f, ok := pqerr.Inspect(err); ok {
		a := reply{reason: reasonOf(f.SQLState), sqlState: f.SQLState, constraint: f.Constraint, inDoubt: f.Fatal}
		a.unknown = f.SQLState == stateCompletionUnknown || f.SQLState == stateTransactionResolutionLost
		if isType[*outdatedError](err) {
			a.reason = Outdated
		}
		return a, true
	}
	if f, ok := mysqlerr.Inspect(err); ok {
		return reply{reason: reasonOfNumber(f), sqlState: f.SQLState, constraint: f.Constraint, inDoubt: f.Fatal}, true
	}
	return reply{}, false
}

// loggable returns the text of an error without values.
func loggable(err error) string {
	if _, ok := mysqlerr.Inspect(err); ok {
		return mysqlerr.Text(err)
	}
	return pqerr.Text(err)
}

// reasonOfNumber returns the reason of an answer of MySQL or MariaDB.
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
		mysqlerr.ReadOnlyMode, mysqlerr.ReadOnlyTransaction, mysqlerr.DiskFull, mysqlerr.OutOfResources,
		mysqlerr.RecordFileFull, mysqlerr.ErrorDuringCommit:
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

// errTxFailed is the error of a statement, or a COMMIT, after another statement of the
// transaction has failed. MySQL would accept it: after a lock timeout (1205) it keeps
// the rest of the transaction, after a deadlock (1213) nothing of it, and commits each
// further statement by itself. PostgreSQL refuses it (25P02).
var errTxFailed = errors.New("a statement of this transaction has failed before: it can only be rolled back")

// aborted reports whether a COMMIT was refused, and rolled back, because a statement
// of the transaction had failed before.
func aborted(err error) bool { return errors.Is(err, errTxFailed) || pqerr.AbortedCommit(err) }
