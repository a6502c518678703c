package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jmoiron/sqlx"
)

// GetContext reads one row into dest, as sqlx does. It is for reads only: after
// a lost connection the query may be sent twice. No row is sql.ErrNoRows; an
// error of the database is an [*Error] and always NotApplied.
//
// Reads use half of the pool's connections at most, one at least, and leave the others to
// changes: a read waits in order of arrival, until ctx ends, and is then refused as
// Overloaded.
func (db *DB) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	if err := db.reads.enter(ctx); err != nil {
		return db.acquireError(err)
	}
	defer db.reads.leave()
	return db.read(ctx, func() error {
		return db.pool.GetContext(ctx, dest, query, args...) //nolint:forbidigo // the rule points here
	})
}

// GetUnqueued reads as GetContext does and waits for no other reads. It is for a short
// read that a change waits for, and for one whose caller bounds how many run at once. Once
// sent it runs to its end, as a statement of Once does, where ctx has no deadline that ends
// it before the server's own timeouts. A query that writes, and may be sent twice all the
// same, is Unknown where Once is when a synchronous standby did not confirm it.
func (db *DB) GetUnqueued(ctx context.Context, dest any, query string, args ...any) error {
	return db.read(ctx, func() error {
		statementCtx := ctx
		if db.endsBefore(ctx) {
			statementCtx = detached{ctx}
		}
		return db.confirmed(ctx, func(conn *sqlx.Conn) error {
			return conn.GetContext(statementCtx, dest, query, args...)
		})
	})
}

// SelectContext reads all rows into the slice at dest, as sqlx does. It is for
// reads only, and waits, as GetContext.
func (db *DB) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	if err := db.reads.enter(ctx); err != nil {
		return db.acquireError(err)
	}
	defer db.reads.leave()
	return db.SelectUnqueued(ctx, dest, query, args...)
}

// SelectUnqueued reads as SelectContext does and waits for no other reads, as GetUnqueued.
// Unlike that, it ends with ctx. A query that writes is Unknown where GetUnqueued's is.
func (db *DB) SelectUnqueued(ctx context.Context, dest any, query string, args ...any) error {
	return db.read(ctx, func() error {
		return db.confirmed(ctx, func(conn *sqlx.Conn) error { return conn.SelectContext(ctx, dest, query, args...) })
	})
}

// confirmed runs send on a connection of its own. Success that a synchronous standby did
// not confirm is an error of confirm.
func (db *DB) confirmed(ctx context.Context, send func(conn *sqlx.Conn) error) error {
	pinned, guarded, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer db.release(pinned)
	err = send(pinned)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		if unconfirmed := guarded.confirm(); unconfirmed != nil {
			return unconfirmed
		}
	}
	return err
}

// read sends a query, and once more on another connection when the first one ended
// before the rows came.
func (db *DB) read(ctx context.Context, send func() error) error {
	err := send()
	if repeatableRead(ctx, err) {
		err = send()
	}
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if isType[*connectError](err) {
		return db.acquireError(err)
	}
	e := Classify(err, false)
	if e == nil {
		return err // a destination that does not fit: a mistake in the program
	}
	return withContext(ctx, e)
}

// repeatableRead reports whether a read failed because its connection was lost before
// the first row, or before it was sent. One that timed out is not repeated: the next would
// time out too.
func repeatableRead(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if errors.Is(err, driver.ErrBadConn) {
		return true
	}
	lost, ok := errors.AsType[*lostError](err)
	if !ok {
		return false
	}
	timeout, ok := lost.cause.(interface{ Timeout() bool })
	return !ok || !timeout.Timeout()
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
