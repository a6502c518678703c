package sqldb

import (
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
)

// reply holds the part of a server's answer to a failed call that contains no values,
// of either engine. PostgreSQL puts values into DETAIL, HINT and CONTEXT.
type reply struct {
	reason     Reason
	sqlState   string
	constraint string
	// inDoubt says that the answer does not prove that a COMMIT or an autocommit
	// statement was not applied.
	inDoubt bool
	// unknown says that the answer itself declares the outcome unknown.
	unknown bool
	// readOnly says that the session takes no changes.
	readOnly bool
	// refused says that, as the answer to a login, it names what waiting does not repair.
	refused bool
	// shown says that MySQL's message can be logged: it holds names of the operator or of
	// the program, and no values.
	shown bool
}

// answered returns the server's answer in err's chain; false when there is none.
func answered(err error) (reply, bool) {
	if answer, ok := errors.AsType[*pq.Error](err); ok {
		r := postgresReply(answer)
		if meant, ok := errors.AsType[*meantError](err); ok {
			r.reason, r.readOnly = meant.reason, meant.reason == Connection
		}
		return r, true
	}
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return mysqlReply(answer), true
	}
	return reply{}, false
}

// meantError is an answer of PostgreSQL that means something else than its SQLSTATE says: Outdated is a prepared
// statement that cannot be used any more, Connection is a standby that takes no changes.
type meantError struct {
	error

	reason Reason
}

func (e *meantError) Unwrap() error { return e.error }

// loggable returns err.Error() with the server's own message replaced by one without
// values, keeping what callers wrapped around it.
func loggable(err error) string {
	text := err.Error()
	if answer, ok := errors.AsType[*pq.Error](err); ok {
		return strings.ReplaceAll(text, answer.Error(), postgresMessage(answer))
	}
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return strings.ReplaceAll(text, answer.Error(), mysqlMessage(answer))
	}
	return text
}

// errTxFailed is the error of a statement, or a COMMIT, after another statement of the
// transaction has failed. MySQL would accept it: after a lock timeout (1205) it keeps
// the rest of the transaction, after a deadlock (1213) nothing of it, and commits each
// further statement by itself. PostgreSQL refuses it (25P02).
var errTxFailed = errors.New("a statement of this transaction has failed before: it can only be rolled back")

// aborted reports whether a COMMIT was refused, and rolled back, because a statement
// of the transaction had failed before.
func aborted(err error) bool {
	return errors.Is(err, errTxFailed) || errors.Is(err, pq.ErrInFailedTransaction)
}
