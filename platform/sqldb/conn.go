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

// driverConn is what database/sql can use of the driver's connection. Embedding
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

// connector makes guarded connections.
type connector struct {
	driver.Connector

	// guard bounds the wait for an answer of a call without a deadline of its
	// own; 0 means no bound.
	guard time.Duration
	// prepare keeps statements prepared; see prepared.go.
	prepare bool
	// dooms makes a failed statement the end of its transaction, where the
	// server would go on; see errDoomed.
	dooms bool
	// handshake bounds Connect, where the driver does not; 0: it does.
	handshake time.Duration
	// greeting is sent once, settings after it.
	greeting []string
	settings string // "" is not sent

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
	made := &conn{driverConn: full, socket: sock, guard: c.guard, sessionGuard: c.guard, dooms: c.dooms, contention: c.contention}
	if c.prepare {
		made.prepared = make(map[string]driverStmt)
	}
	for _, statement := range append(slices.Clone(c.greeting), c.settings) {
		if err := made.tell(ctx, statement); err != nil {
			return nil, &connectError{errors.Join(err, made.Close())}
		}
	}
	made.statements = 0
	return made, nil
}

// conn is a connection that never says driver.ErrBadConn once something was
// sent, and never waits for ever.
type conn struct {
	driverConn

	socket       *socket
	guard        time.Duration // of the transaction or statement that has the connection
	sessionGuard time.Duration // what guard goes back to
	statements   int           // since it left the pool
	poisoned     bool          // the driver refused a call and forgot to tidy up

	prepared map[string]driverStmt // by query; nil where a pooler is in between

	told   string // the last settings of the session
	dooms  bool   // a failed statement is the end of its transaction
	inTx   bool
	doomed error // the failure

	contention *contention.Metrics
}

// tell sends a statement that sets the session's variables, unless it was the
// last one that did.
func (c *conn) tell(ctx context.Context, settings string) error {
	if settings == "" || settings == c.told {
		return nil
	}
	if _, err := c.ExecContext(ctx, settings, nil); err != nil {
		if _, lost := errors.AsType[*lostError](err); lost {
			return driver.ErrBadConn // it changed nothing that another connection would miss
		}
		return err
	}
	c.told = settings
	return nil
}

// IsValid tells whether the connection may go back to the pool.
func (c *conn) IsValid() bool { return !c.poisoned && c.driverConn.IsValid() }

// arm prepares a call: it bounds the wait for the answer and returns the mark
// that verdict wants. An error means that nothing was sent.
func (c *conn) arm(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if !c.IsValid() {
		return 0, driver.ErrBadConn
	}
	if c.doomed != nil {
		return 0, fmt.Errorf("%w: %w", errDoomed, c.doomed)
	}
	if err := c.socket.SetDeadline(c.deadline(ctx)); err != nil {
		return 0, driver.ErrBadConn
	}
	return c.socket.written.Load(), nil
}

// deadline is when to give the answer up. A context that can be cancelled makes
// the driver ask the server to cancel, and the server's answer is worth the
// Grace; one that cannot has a deadline that already allows for it.
func (c *conn) deadline(ctx context.Context) time.Time {
	at, bounded := ctx.Deadline()
	if bounded && ctx.Done() != nil {
		at = at.Add(Grace)
	}
	if c.guard <= 0 {
		return at // the zero time is no deadline
	}
	if limit := time.Now().Add(c.guard); !bounded || limit.Before(at) {
		return limit
	}
	return at
}

// verdict turns an error of the driver into one that is true: driver.ErrBadConn
// makes database/sql repeat the call, so it is kept for calls of which not one
// byte was sent.
func (c *conn) verdict(err error, mark uint64) error {
	if err == nil || errors.Is(err, driver.ErrSkip) { // ErrSkip: to be prepared instead
		return err
	}
	c.noteFailure(err)
	unsent := c.socket.written.Load() == mark
	if c.IsValid() && !errors.Is(err, driver.ErrBadConn) {
		// A call that the driver refuses unsent, such as one with 65536
		// parameters, leaves its "query in progress" flag set for ever.
		c.poisoned = unsent
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

// noteFailure counts a lock that was not to be had, and remembers the first failure
// of a transaction whose server would go on.
func (c *conn) noteFailure(err error) {
	if c.doomed != nil {
		return // the same one, which the rows and their end may both tell
	}
	if LockTimedOut(err) {
		c.contention.Conflict(contention.LockTimeout)
	}
	if c.dooms && c.inTx {
		c.doomed = err
	}
}

// closeWait bounds the farewell to the server.
const closeWait = time.Second

// Close says goodbye and closes the socket. Whether the server heard it concerns
// nobody: it notices either way.
func (c *conn) Close() error {
	// The deadline of the last call may have passed long ago.
	if err := c.socket.SetDeadline(time.Now().Add(closeWait)); err != nil {
		return nil //nolint:nilerr // it is closed already
	}
	_ = c.driverConn.Close()
	return nil
}

// ExecContext sends a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	mark, err := c.arm(ctx)
	if err != nil {
		return nil, err
	}
	c.statements++
	var result driver.Result
	kept, err := c.keptStatement(ctx, query, args)
	switch {
	case err != nil:
	case kept != nil:
		result, err = kept.ExecContext(ctx, args)
	default:
		result, err = c.driverConn.ExecContext(ctx, query, args)
	}
	return result, c.verdict(c.notePlan(kept, err), mark)
}

// QueryContext sends a statement that answers with rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	mark, err := c.arm(ctx)
	if err != nil {
		return nil, err
	}
	c.statements++
	var rows driver.Rows
	kept, err := c.keptStatement(ctx, query, args)
	switch {
	case err != nil:
	case kept != nil:
		rows, err = kept.QueryContext(ctx, args)
	default:
		rows, err = c.driverConn.QueryContext(ctx, query, args)
	}
	if err != nil {
		return nil, c.verdict(c.notePlan(kept, err), mark)
	}
	return c.watch(rows), nil
}

// PrepareContext prepares a statement, or begins a COPY.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	mark, err := c.arm(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.verdict(err, mark)
	}
	c.statements++
	if full, ok := inner.(driverStmt); ok {
		return &stmt{driverStmt: full, conn: c}, nil
	}
	// A COPY in progress: it has no contexts, and the deadline armed here holds
	// for all of it, as statement_timeout does on the server.
	return inner, nil
}

// BeginTx begins a transaction. A BEGIN changes nothing, so an attempt that
// failed may always be repeated.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	mark, err := c.arm(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := c.driverConn.BeginTx(ctx, opts)
	if err != nil {
		err = c.verdict(err, mark)
		if _, lost := errors.AsType[*lostError](err); lost {
			err = driver.ErrBadConn
		}
		return nil, err
	}
	c.inTx = true
	return &tx{Tx: inner, conn: c}, nil
}

// Ping asks for a sign of life; a failed one may be repeated elsewhere.
func (c *conn) Ping(ctx context.Context) error {
	if _, err := c.arm(ctx); err != nil {
		return err
	}
	return c.driverConn.Ping(ctx) //nolint:wrapcheck // driver.ErrBadConn has a meaning to database/sql
}

// ResetSession is called when the connection leaves the pool again, before
// anything is sent: the moment to notice that the server has closed it.
func (c *conn) ResetSession(ctx context.Context) error {
	c.guard, c.statements = c.sessionGuard, 0
	c.inTx, c.doomed = false, nil
	if err := c.driverConn.ResetSession(ctx); err != nil {
		return err //nolint:wrapcheck // driver.ErrBadConn has a meaning to database/sql
	}
	if !c.socket.quiet() {
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
// when it was and the answer did not come.
func (t *tx) Commit() error {
	defer t.end()
	mark, err := t.conn.arm(context.Background())
	if err != nil {
		// The driver still has to end what it began for the transaction.
		return errors.Join(err, ignoreBadConn(t.Tx.Rollback()))
	}
	return t.conn.ended(t.conn.verdict(t.Tx.Commit(), mark))
}

// end is that of the transaction, and with it of what had doomed it.
func (t *tx) end() { t.conn.inTx, t.conn.doomed = false, nil }

// rollbackWait caps a ROLLBACK: closing the connection does the same.
const rollbackWait = 2 * time.Second

func (t *tx) Rollback() error {
	defer t.end()
	if t.conn.IsValid() {
		if err := t.conn.socket.SetDeadline(time.Now().Add(rollbackWait)); err != nil {
			return errors.Join(driver.ErrBadConn, ignoreBadConn(t.Tx.Rollback()))
		}
	}
	return t.conn.ended(t.Tx.Rollback())
}

// ended retires a connection whose transaction did not end as it was told to,
// where the server might carry it on into the next one.
func (c *conn) ended(err error) error {
	c.poisoned = c.poisoned || c.dooms && err != nil
	return err
}

func ignoreBadConn(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

// driverStmt is what database/sql can use of the driver's statement.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// stmt is a prepared statement with the connection's guards.
type stmt struct {
	driverStmt

	conn *conn
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	mark, err := s.conn.arm(ctx)
	if err != nil {
		return nil, err
	}
	s.conn.statements++
	result, err := s.driverStmt.ExecContext(ctx, args)
	return result, s.conn.verdict(err, mark)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	mark, err := s.conn.arm(ctx)
	if err != nil {
		return nil, err
	}
	s.conn.statements++
	rows, err := s.driverStmt.QueryContext(ctx, args)
	if err != nil {
		return nil, s.conn.verdict(err, mark)
	}
	return s.conn.watch(rows), nil
}
