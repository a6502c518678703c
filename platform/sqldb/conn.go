package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

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
	// initStatements are sent once after connecting; the last one sets what
	// applySettings changes.
	initStatements []string
	// txSettings, unless "", follow BEGIN in each transaction, where the pool does not make the settings.
	txSettings string
	// notices says that the driver is PostgreSQL's, whose notices are read; see unreplicated.go.
	notices bool
	// database is the name of the database, for traces.
	database string
	// ignored names the URL's parameters that have no effect.
	ignored []string

	contention *contention.Metrics
	tracing    *tracing // nil makes no spans
}

// Connect opens a connection, in a span when a request waits for it. Every error is
// a *connectError: nothing was sent that could change data.
func (c *connector) Connect(ctx context.Context) (_ driver.Conn, err error) {
	span := c.tracing.start(ctx, "connect")
	defer func() {
		endSpan(ctx, span, err)
		if err != nil {
			err = &connectError{err}
		}
	}()

	bounded := ctx // and not ctx, whose end the span asks for
	if c.handshake > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, c.handshake)
		defer cancel()
	}

	var sock *socket
	inner, err := c.Connector.Connect(context.WithValue(bounded, socketKey{}, &sock))
	if err != nil {
		return nil, err
	}
	full := inner.(driverConn) //nolint:errcheck // both drivers' connections are
	made := &conn{driverConn: full, connector: c, socket: sock, maxWait: c.maxWait}
	if c.prepare {
		made.prepared = make(map[string]driverStmt)
	}
	if c.notices {
		pq.SetNoticeHandler(inner, made.notice)
	}

	for _, statement := range c.initStatements {
		if err := made.applySettings(bounded, statement); err != nil {
			return nil, errors.Join(err, made.Close())
		}
	}
	return made, nil
}

// conn is a connection that never returns driver.ErrBadConn once a byte of the
// call was sent, and bounds the wait for every answer.
type conn struct {
	driverConn

	connector *connector
	socket    *socket
	maxWait   time.Duration // of the current transaction or statement; ResetSession restores the connector's
	broken    bool          // must not return to the pool
	// unreplicated says that a change was committed, since the connection left the pool, that its synchronous standby
	// may lack.
	unreplicated bool

	beginSQL []string              // begin the next transaction; none: the driver does
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
	if _, err := c.exec(ctx, settings, nil); err != nil {
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
	if r, ok := answered(err); ok && (r.readOnly || r.inDoubt) {
		c.broken = true // the session has ended, or the next one may find a server that takes changes
	}

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
	if c.failsTx() {
		c.txErr = err
	}
}

// failsTx reports whether a failure now must be made the transaction's, because the
// server would not.
func (c *conn) failsTx() bool { return c.connector.failTx && c.inTx }

// closeWait bounds the message that ends the session.
const closeWait = time.Second

// Close ends the session and closes the socket. Its errors are dropped: the server
// notices the closed socket either way.
func (c *conn) Close() error {
	_ = c.socket.SetDeadline(time.Now().Add(closeWait)) // the last call's may have passed long ago
	_ = c.driverConn.Close()
	return nil
}

// callServer sends a statement between beginCall and classifyCall, prepared where it is kept so.
func callServer[T any](
	ctx context.Context, c *conn, query string, args []driver.NamedValue,
	send func(context.Context, string, []driver.NamedValue) (T, error),
	sendPrepared func(driverStmt, context.Context, []driver.NamedValue) (T, error),
) (result T, err error) {
	sentBefore, err := c.beginCall(ctx)
	if err != nil {
		return result, err
	}

	prepared, err := c.preparedStatement(ctx, query, args)
	switch {
	case err != nil:
	case prepared == nil:
		result, err = send(ctx, query, args)
	default:
		result, err = sendPrepared(prepared, ctx, args)
		err = c.retireOutdated(err)
	}
	return result, c.classifyCall(err, sentBefore)
}

// ExecContext sends a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	span := c.connector.tracing.startQuery(ctx, query)
	result, err := c.exec(ctx, query, args)
	endSpan(ctx, span, err)
	return result, err
}

// exec is ExecContext without a span.
func (c *conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return callServer(ctx, c, query, args, c.driverConn.ExecContext, driverStmt.ExecContext)
}

// QueryContext sends a statement that returns rows; its span ends when they are read.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	span := c.connector.tracing.startQuery(ctx, query)
	inner, err := callServer(ctx, c, query, args, c.driverConn.QueryContext, driverStmt.QueryContext)
	if err != nil {
		endSpan(ctx, span, err)
		return nil, err
	}
	if span == nil && !c.failsTx() {
		return inner, nil
	}
	return &rows{Rows: inner, conn: c, ctx: ctx, span: span}, nil
}

// PrepareContext refuses: statements are kept prepared by themselves, and the calls of
// one prepared here would not be guarded. database/sql calls it also when the driver
// cannot put the parameters into a statement of MySQL.
func (*conn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errors.New("a statement is prepared by sqldb or not at all")
}

// BeginTx begins a transaction. A BEGIN changes nothing, so a failed one may always
// be repeated: a lost connection is driver.ErrBadConn.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (_ driver.Tx, err error) {
	span := c.connector.tracing.start(ctx, "BEGIN")
	defer func() { endSpan(ctx, span, err) }()

	sentBefore, err := c.beginCall(ctx)
	if err != nil {
		return nil, err
	}

	inner, err := c.beginDriver(ctx, opts)
	if err != nil {
		c.broken = c.broken || sentBefore != c.socket.written.Load() // the server may be in a transaction
		err = c.classifyCall(standbyRefusal(err), sentBefore)
		if isType[*lostError](err) {
			err = driver.ErrBadConn
		}
		return nil, err
	}

	c.inTx = true
	begun := &tx{Tx: inner, ctx: ctx, conn: c}
	if settings := c.connector.txSettings; settings != "" {
		if _, err := c.exec(ctx, settings, nil); err != nil {
			return nil, errors.Join(err, begun.Rollback())
		}
	}
	return begun, nil
}

// beginDriver begins a transaction by beginSQL, which makes its settings in the same round trip, or by the driver.
func (c *conn) beginDriver(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.beginSQL == nil {
		return c.driverConn.BeginTx(ctx, opts)
	}

	begun := c.driverConn.(driver.Tx) //nolint:errcheck // lib/pq's connection is
	for _, statement := range c.beginSQL {
		if _, err := c.driverConn.ExecContext(ctx, statement, nil); err != nil {
			return nil, err
		}
	}
	return begun, nil
}

// Ping checks the connection; a failed ping may be repeated on another one.
func (c *conn) Ping(ctx context.Context) error {
	if _, err := c.beginCall(ctx); err != nil {
		return err
	}
	return c.driverConn.Ping(ctx)
}

// ResetSession is called when the connection leaves the pool again, before anything
// is sent. It returns driver.ErrBadConn when the server has closed the connection.
func (c *conn) ResetSession(ctx context.Context) error {
	c.maxWait = c.connector.maxWait
	c.inTx, c.txErr, c.unreplicated, c.beginSQL = false, nil, false, nil
	if err := c.driverConn.ResetSession(ctx); err != nil {
		return err
	}
	if !c.socket.probeIdle() {
		return driver.ErrBadConn
	}
	return nil
}
