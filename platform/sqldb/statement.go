package sqldb

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"
)

// Statements sends single autocommit statements, each on a connection that it takes out of the pool. That costs one
// round trip where a transaction costs three. An error of the database is an [*Error]; sql.ErrNoRows, and the error of
// a destination that does not fit, are returned unchanged, and the statement is applied.
type Statements struct {
	db      *DB
	kind    statementKind
	options *options // of once alone
}

type statementKind uint8

const (
	read statementKind = iota
	repeatable
	once
)

// Once returns what sends a statement that must not be applied twice.
//
// A statement is sent again only when the server itself has answered that it applied nothing: because of a deadlock or
// a serialization failure (40P01, 40001), three times at most in all, after a random pause, until ctx ends, and while a
// migration has made the prepared statement of a connection invalid.
//
// The end of ctx does not end a statement that is under way: a caller that goes away does not make the outcome unknown.
// Where ctx has no deadline, or one later than the statement timeout and Grace, the server's own timeouts decide first
// and a call costs neither a goroutine nor a timer; a nearer deadline makes the driver ask the server to cancel.
//
// An error is NotApplied when nothing was sent or the server answered, Unknown when the connection ended in between, or
// when the server committed without its synchronous standby because the wait was cancelled.
func (db *DB) Once(opts ...Option) Statements { return Statements{db, once, optionsOf(opts)} }

// Repeatable returns what sends a statement that may be applied several times: a read that a change waits for, or whose
// caller bounds how many run at once, or a change that has the same effect when it is made again. It is sent as by
// [DB.Once], and also again after a lost connection. An error is NotApplied, but for a change that a synchronous
// standby did not confirm.
func (db *DB) Repeatable() Statements { return Statements{db, repeatable, nil} }

// GetContext reads one row into dest, as sqlx does. It is for reads only: after
// a lost connection the query may be sent again. No row is sql.ErrNoRows; an
// error of the database is an [*Error] and always NotApplied.
//
// Reads use half of the pool's connections at most, one at least, and leave the others to
// changes: a read waits in order of arrival, until ctx ends, and is then refused as
// Overloaded. Unlike a statement of [DB.Once] it ends with ctx.
func (db *DB) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return Statements{db, read, nil}.GetContext(ctx, dest, query, args...)
}

// SelectContext reads all rows into the slice at dest, as sqlx does. It is for
// reads only, and waits, as GetContext.
func (db *DB) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return Statements{db, read, nil}.SelectContext(ctx, dest, query, args...)
}

// ExecContext sends a statement that returns no rows.
func (s Statements) ExecContext(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = s.send(ctx, func(ctx context.Context, conn *sqlx.Conn) (err error) {
		result, err = conn.ExecContext(ctx, query, args...)
		return err
	})
	return result, err
}

// GetContext sends a statement and scans the first row into dest, as sqlx does. No row is sql.ErrNoRows.
func (s Statements) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return s.send(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, dest, query, args...)
	})
}

// SelectContext sends a statement and scans all rows into the slice at dest, as sqlx does.
func (s Statements) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return s.send(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.SelectContext(ctx, dest, query, args...)
	})
}

// send calls run, which sends the statement, as often as the kind of statement allows.
func (s Statements) send(ctx context.Context, run func(ctx context.Context, conn *sqlx.Conn) error) error {
	if s.kind == read {
		if err := s.db.permits.acquire(ctx); err != nil {
			return s.db.acquireError(err)
		}
		defer s.db.permits.Release(1)
	}

	err := s.db.repeat(ctx, func() (again bool, err error) {
		err = s.sendOnce(ctx, run)
		return transient(err) || s.kind != once && lostInTime(err), err
	})
	return s.db.countUnknown(err, operationOnce, s.options)
}

func (s Statements) sendOnce(ctx context.Context, run func(ctx context.Context, conn *sqlx.Conn) error) error {
	pinned, guarded, err := s.db.acquire(ctx, s.options)
	if err != nil {
		return err
	}
	defer release(pinned)

	if s.kind != read {
		var cancel context.CancelFunc
		ctx, cancel = s.db.statementContext(ctx)
		defer cancel()
	}

	sentBefore := guarded.socket.written.Load()
	err = run(ctx, pinned)
	sent := guarded.socket.written.Load() != sentBefore
	if e := s.db.classify(err, sent && s.kind == once); e != nil {
		return withContext(ctx, e)
	}
	if unconfirmed := guarded.confirm(); unconfirmed != nil {
		return unconfirmed
	}
	return err
}

// statementContext returns the context of a statement that ctx's cancellation does not end. Its deadline is not
// signalled where the server's statement_timeout comes first; a pooler's server connection does not have ours.
func (db *DB) statementContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	limit := time.Now().Add(db.settings.StatementTimeout)
	if db.settings.Pooler == PoolerNone && (!bounded || deadline.After(limit.Add(Grace))) {
		return detached{ctx}, func() {}
	}

	if !bounded || deadline.After(limit) {
		deadline = limit
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// detached is a context whose deadline is never signalled. database/sql and the
// driver start a goroutine each for a context with a Done channel; without one
// the connection's own deadline bounds the call.
type detached struct{ context.Context }

func (detached) Done() <-chan struct{} { return nil }
func (detached) Err() error            { return nil }

// readPermits bounds the reads that use the pool at one moment, so that they leave the rest
// of its connections to changes. Reads wait in order of arrival.
type readPermits struct {
	*semaphore.Weighted

	waits  atomic.Int64 // reads that had to wait
	waited atomic.Int64 // how long, in nanoseconds
}

// newReadPermits returns half as many permits as the pool has connections, at least one.
func newReadPermits(maxOpenConns int) *readPermits {
	const share = 2
	return &readPermits{Weighted: semaphore.NewWeighted(int64(max(maxOpenConns/share, 1)))}
}

// acquire waits for a permit, until ctx ends at most, and returns ctx's error then.
func (p *readPermits) acquire(ctx context.Context) error {
	if p.TryAcquire(1) {
		return nil
	}
	p.waits.Add(1)
	begin := time.Now()
	defer func() { p.waited.Add(int64(time.Since(begin))) }()
	return p.Acquire(ctx, 1)
}
