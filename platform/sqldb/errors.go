package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Error is an error of the database together with the outcome of the change.
// Its text holds no DETAIL and no values; Unwrap returns the driver's error.
type Error struct {
	// Outcome says whether the change was made.
	Outcome Outcome
	// Reason is why it failed.
	Reason Reason
	// SQLState is the server's five characters, "" when it did not answer. On
	// MySQL many errors share HY000: use Reason there.
	SQLState string
	// Constraint is the name of the violated constraint, if any.
	Constraint string

	operation string // that ended with an unknown outcome, for the metric
	err       error
}

// Error returns one line for the log.
func (e *Error) Error() string {
	text := "database: " + e.Outcome.String() + ": " + e.Reason.String()
	if e.err != nil { // an adapter makes errors without
		text += ": " + loggable(e.err)
	}
	return text
}

// Unwrap returns the error that the call ended with.
func (e *Error) Unwrap() error { return e.err }

// lostError is a connection that ended after something was sent and before the
// answer. It hides driver.ErrBadConn from errors.Is: database/sql would take it
// for permission to send the statement again.
type lostError struct{ cause error }

func (e *lostError) Error() string {
	if errors.Is(e.cause, driver.ErrBadConn) { // lib/pq's handleError also makes it of each FATAL, whose SQLSTATE it drops
		return "connection lost before the answer, or ended by a FATAL that only the server's or pooler's log shows"
	}
	return "connection lost before the answer: " + e.cause.Error()
}

func (e *lostError) Unwrap() error {
	if errors.Is(e.cause, driver.ErrBadConn) {
		return nil
	}
	return e.cause
}

// lostInTime reports whether a call failed because its connection had ended, before anything was sent or before the
// answer. One that timed out is not meant: the next would time out too.
func lostInTime(err error) bool {
	lost, ok := errors.AsType[*lostError](err)
	if !ok {
		return errors.Is(err, driver.ErrBadConn)
	}
	timeout, ok := errors.AsType[net.Error](lost)
	return !ok || !timeout.Timeout()
}

// connectError is a connection that could not be opened.
type connectError struct{ cause error }

// Error returns one line, where the driver has one for each of several hosts.
func (e *connectError) Error() string {
	return "connect: " + strings.NewReplacer(":\n", ": ", "\n", "; ").Replace(e.cause.Error())
}

func (e *connectError) Unwrap() error { return e.cause }

// Classify turns an error of the driver or of database/sql into an [*Error], and
// returns nil for one that is neither. sent says whether something that commits
// (COMMIT, or an autocommit statement) may have reached the server.
//
// An answer of the server is proof of NotApplied even when sent: PostgreSQL
// answers COMMIT and an autocommit statement with an error only before the
// commit record is written, and with a FATAL that ends the session otherwise.
// MySQL's errors are proof in the same way, but for those that end the session
// and 1180, which is an error during COMMIT by its very name.
func Classify(err error, sent bool) *Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}

	r, ok := answered(err)
	switch {
	case !ok:
		r.reason, ok = localReason(err)
		r.inDoubt = true
	case isType[*connectError](err) && r.reason != Overloaded:
		r.reason = Connection // whatever the server has refused: no session, no change
	}
	if !ok {
		return nil
	}

	e := &Error{Outcome: NotApplied, Reason: r.reason, SQLState: r.sqlState, Constraint: r.constraint, err: err}
	if r.unknown || r.inDoubt && sent && !aborted(err) {
		e.Outcome = Unknown
	}
	return e
}

// localReason returns the reason of an error that arose on this side of the
// connection; false for any other.
func localReason(err error) (Reason, bool) {
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled, true
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout, true
	case brokenConnection(err):
		return Connection, true
	case errors.Is(err, sql.ErrTxDone), aborted(err):
		return Other, true
	}
	return Other, false
}

// brokenConnection reports whether err can come from a connection that ended.
func brokenConnection(err error) bool {
	return ownConnectionError(err) || isType[net.Error](err) ||
		isAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed) ||
		// Of MySQL's driver: the connection ended, or is out of step.
		isAny(err, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer)
}

// ownConnectionError is brokenConnection without the errors that a connection
// to another service returns too.
func ownConnectionError(err error) bool {
	return isAny(err, driver.ErrBadConn, sql.ErrConnDone) ||
		isType[*lostError](err) || isType[*connectError](err)
}

// isAny reports whether one of the targets is in err's chain.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// isType reports whether an error of type T is in err's chain.
func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// transient reports whether err is an [*Error] that says that nothing was applied, and that the same call may succeed
// when it is repeated.
func transient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Outcome == NotApplied && (e.Reason == Serialization || e.Reason == Outdated)
}

// withContext sets the reason of an error that the context caused to Timeout or
// Canceled: the driver returns 57014 or a broken connection instead.
func withContext(ctx context.Context, e *Error) *Error {
	if e.Reason != Timeout && e.Reason != Connection {
		return e
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Reason = Timeout
	case errors.Is(ctx.Err(), context.Canceled):
		e.Reason = Canceled
	default:
		return e
	}

	if !errors.Is(e.err, ctx.Err()) {
		e.err = errors.Join(ctx.Err(), e.err)
	}
	return e
}

// OutcomeOf returns the outcome of an [*Error] in err's chain; false when there
// is none.
func OutcomeOf(err error) (Outcome, bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Unknown, false
	}
	return e.Outcome, true
}

// SQLState returns the server's five characters, or "" when err is not an
// answer of the server.
func SQLState(err error) string {
	if e := Classify(err, false); e != nil {
		return e.SQLState
	}
	return ""
}

// LockTimedOut reports whether err is the server's answer that a lock did not come
// free in time, on any engine.
func LockTimedOut(err error) bool {
	e := Classify(err, false)
	return e != nil && e.Reason == LockTimeout
}
