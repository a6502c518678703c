package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// driverConn lists what database/sql can use of the driver's connection. Embedding
// the whole set keeps every fast path of database/sql.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// connector opens guarded connections.
type connector struct {
	driver.Connector

	// maxWait bounds the wait for the answer to a call whose context has no
	// deadline; 0 means no bound.
	maxWait time.Duration
	// prepare keeps statements prepared; see prepared.go.
	prepare bool
	// failTx makes the connection refuse the rest of a transaction after a failed
	// statement, for servers that would accept it; see errTxFailed.
	failTx bool
	// handshake bounds Connect for a driver that does not; 0 for one that does.
	handshake time.Duration
	// initStatements are sent once after connecting, followed by settings ("" is
	// not sent).
	initStatements []string
	settings       string

	contention *contention.Metrics
}

// Connect opens a connection. Every error is a *connectError: nothing was sent
// that could change data.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.handshake > 0 {
		bounded, cancel := context.WithTimeout(ctx, c.handshake)
		defer cancel()
		ctx = bounded
	}
	var sock *socket
	inner, err := c.Connector.Connect(context.WithValue(ctx, socketKey{}, &sock))
	if err != nil {
		return nil, &connectError{err}
	}
	full, ok := inner.(driverConn)
	if !ok || sock == nil {
		return nil, &connectError{errors.Join(fmt.Errorf("the driver's %T lacks a method", inner), inner.Close())}
	}
	made := &conn{driverConn: full, connector: c, socket: sock, maxWait: c.maxWait}
	if c.prepare {
		made.prepared = make(map[string]driverStmt)
	}
	for _, statement := range append(slices.Clone(c.initStatements), c.settings) {
		if err := made.applySettings(ctx, statement); err != nil {
			return nil, &connectError{errors.Join(err, made.Close())}
		}
	}
	made.statements = 0
	return made, nil
}

// conn is a connection that never returns driver.ErrBadConn once a byte of the
// call was sent, and bounds the wait for every answer.
type conn struct {
	driverConn

	connector  *connector
	socket     *socket
	maxWait    time.Duration // of the current transaction or statement; ResetSession restores the connector's
	statements int           // sent since the connection left the pool
	broken     bool          // must not return to the pool

	prepared map[string]driverStmt // by query; nil behind a pooler

	lastSettings string // the last statement of applySettings
	inTx         bool
	txErr        error // the first failure of the open transaction, with failTx
}

// applySettings sends a statement that sets session variables, unless it equals
// the last one sent. It returns driver.ErrBadConn when the connection was lost: the
// statement changed nothing that another connection would miss.
func (c *conn) applySettings(ctx context.Context, settings string) error {
	if settings == "" || settings == c.lastSettings {
		return nil
	}
	if _, err := c.ExecContext(ctx, settings, nil); err != nil {
		if isType[*lostError](err) {
			return driver.ErrBadConn
		}
		return err
	}
	c.lastSettings = settings
	return nil
}

// IsValid reports whether the connection may go back to the pool.
func (c *conn) IsValid() bool { return !c.broken && c.driverConn.IsValid() }

// beginCall sets the deadline of a call and returns the number of bytes sent so
// far, which classifyCall needs. After an error of beginCall nothing was sent.
func (c *conn) beginCall(ctx context.Context) (sentBefore uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if !c.IsValid() {
		return 0, driver.ErrBadConn
	}
	if c.txErr != nil {
		return 0, fmt.Errorf("%w: %w", errTxFailed, c.txErr)
	}
	if err := c.socket.SetDeadline(c.deadline(ctx)); err != nil {
		return 0, driver.ErrBadConn
	}
	return c.socket.written.Load(), nil
}

// deadline returns the time at which the wait for an answer ends. A context that can
// be cancelled makes the driver ask the server to cancel, and the server's answer to
// that is waited for by Grace longer; the deadline of a context that cannot be
// cancelled includes Grace already.
func (c *conn) deadline(ctx context.Context) time.Time {
	at, bounded := ctx.Deadline()
	if bounded && ctx.Done() != nil {
		at = at.Add(Grace)
	}
	if c.maxWait <= 0 {
		return at // the zero time is no deadline
	}
	if limit := time.Now().Add(c.maxWait); !bounded || limit.Before(at) {
		return limit
	}
	return at
}

// classifyCall corrects the driver's error of a call: driver.ErrBadConn makes
// database/sql repeat the call, so it is returned only when not one byte was sent.
// An error without an answer after that becomes a *lostError.
func (c *conn) classifyCall(err error, sentBefore uint64) error {
	if err == nil || errors.Is(err, driver.ErrSkip) { // ErrSkip: database/sql prepares the statement instead
		return err
	}
	c.recordFailure(err)
	unsent := c.socket.written.Load() == sentBefore
	if c.IsValid() && !errors.Is(err, driver.ErrBadConn) {
		// A call that the driver refuses unsent, such as one with 65536
		// parameters, leaves its "query in progress" flag set for ever.
		c.broken = unsent
		return err
	}
	if unsent {
		return driver.ErrBadConn
	}
	if _, ok := answered(err); ok {
		return err
	}
	return &lostError{err}
}

// recordFailure counts a lock timeout, and stores the first failure of a
// transaction that the server itself would continue.
func (c *conn) recordFailure(err error) {
	if c.txErr != nil {
		return // counted already: rows and their Close may both return it
	}
	if LockTimedOut(err) {
		c.connector.contention.Conflict(contention.LockTimeout)
	}
	if c.connector.failTx && c.inTx {
		c.txErr = err
	}
}

// closeWait bounds the message that ends the session.
const closeWait = time.Second

// Close ends the session and closes the socket. Its errors are dropped: the server
// notices the closed socket either way.
func (c *conn) Close() error {
	// The deadline of the last call may have passed long ago.
	if err := c.socket.SetDeadline(time.Now().Add(closeWait)); err != nil {
		return nil //nolint:nilerr // it is closed already
	}
	_ = c.driverConn.Close()
	return nil
}

// callServer runs one call of the driver between beginCall and classifyCall.
func callServer[T any](ctx context.Context, c *conn, call func() (T, error)) (result T, err error) {
	sentBefore, err := c.beginCall(ctx)
	if err != nil {
		return result, err
	}
	c.statements++
	result, err = call()
	return result, c.classifyCall(err, sentBefore)
}

// ExecContext sends a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return callServer(ctx, c, func() (driver.Result, error) {
		prepared, err := c.preparedStatement(ctx, query, args)
		if err != nil {
			return nil, err
		}
		if prepared == nil {
			return c.driverConn.ExecContext(ctx, query, args)
		}
		result, err := prepared.ExecContext(ctx, args)
		return result, c.retireOutdated(err)
	})
}

// QueryContext sends a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.checkRows(callServer(ctx, c, func() (driver.Rows, error) {
		prepared, err := c.preparedStatement(ctx, query, args)
		if err != nil {
			return nil, err
		}
		if prepared == nil {
			return c.driverConn.QueryContext(ctx, query, args)
		}
		rows, err := prepared.QueryContext(ctx, args)
		return rows, c.retireOutdated(err)
	}))
}

// PrepareContext prepares a statement, or begins a COPY.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := callServer(ctx, c, func() (driver.Stmt, error) { return c.driverConn.PrepareContext(ctx, query) })
	if err != nil {
		return nil, err
	}
	if full, ok := inner.(driverStmt); ok {
		return &stmt{driverStmt: full, conn: c}, nil
	}
	// A COPY in progress: it has no contexts, and the deadline set here holds for
	// all of it, as statement_timeout does on the server.
	return inner, nil
}

// BeginTx begins a transaction. A BEGIN changes nothing, so a failed one may always
// be repeated: a lost connection is driver.ErrBadConn.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	sentBefore, err := c.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := c.driverConn.BeginTx(ctx, opts)
	if err != nil {
		err = c.classifyCall(err, sentBefore)
		if isType[*lostError](err) {
			err = driver.ErrBadConn
		}
		return nil, err
	}
	c.inTx = true
	return &tx{Tx: inner, conn: c}, nil
}

// Ping checks the connection; a failed ping may be repeated on another one.
func (c *conn) Ping(ctx context.Context) error {
	if _, err := c.beginCall(ctx); err != nil {
		return err
	}
	return c.driverConn.Ping(ctx) //nolint:wrapcheck // driver.ErrBadConn has a meaning to database/sql
}

// ResetSession is called when the connection leaves the pool again, before anything
// is sent. It returns driver.ErrBadConn when the server has closed the connection.
func (c *conn) ResetSession(ctx context.Context) error {
	c.maxWait, c.statements = c.connector.maxWait, 0
	c.inTx, c.txErr = false, nil
	if err := c.driverConn.ResetSession(ctx); err != nil {
		return err //nolint:wrapcheck // driver.ErrBadConn has a meaning to database/sql
	}
	if !c.socket.probeIdle() {
		return driver.ErrBadConn
	}
	return nil
}

// tx is a transaction whose COMMIT and ROLLBACK are guarded like statements.
type tx struct {
	driver.Tx

	conn *conn
}

// Commit returns driver.ErrBadConn when COMMIT was not sent, and a *lostError
// when it was sent and not answered.
func (t *tx) Commit() error {
	defer t.conn.resetTx()
	sentBefore, err := t.conn.beginCall(context.Background())
	if err != nil {
		// The driver still has to end what it began for the transaction.
		return errors.Join(err, ignoreBadConn(t.Tx.Rollback()))
	}
	return t.conn.retireUnended(t.conn.classifyCall(t.Tx.Commit(), sentBefore))
}

// rollbackWait bounds a ROLLBACK: closing the connection does the same.
const rollbackWait = 2 * time.Second

// Rollback sends ROLLBACK.
func (t *tx) Rollback() error {
	defer t.conn.resetTx()
	if t.conn.IsValid() {
		if err := t.conn.socket.SetDeadline(time.Now().Add(rollbackWait)); err != nil {
			return errors.Join(driver.ErrBadConn, ignoreBadConn(t.Tx.Rollback()))
		}
	}
	return t.conn.retireUnended(t.Tx.Rollback())
}

// resetTx forgets the transaction that ended, with its failure.
func (c *conn) resetTx() { c.inTx, c.txErr = false, nil }

// retireUnended marks the connection broken when COMMIT or ROLLBACK failed on a
// server that might continue the transaction. It returns err.
func (c *conn) retireUnended(err error) error {
	c.broken = c.broken || c.connector.failTx && err != nil
	return err
}

func ignoreBadConn(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

// driverStmt lists what database/sql can use of the driver's statement.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// stmt is a prepared statement whose calls are guarded like those of conn.
type stmt struct {
	driverStmt

	conn *conn
}

// ExecContext runs the statement.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return callServer(ctx, s.conn, func() (driver.Result, error) { return s.driverStmt.ExecContext(ctx, args) })
}

// QueryContext runs the statement and returns its rows.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.checkRows(callServer(ctx, s.conn, func() (driver.Rows, error) {
		return s.driverStmt.QueryContext(ctx, args)
	}))
}
