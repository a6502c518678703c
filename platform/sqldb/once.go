package sqldb

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
)

// Once runs fn, which sends ONE autocommit statement on conn and reads its
// answer to the end. It costs one round trip where a transaction costs three.
// The statement is never sent again while its outcome could be unknown. Only when
// the server itself has answered that it applied nothing, because of a deadlock
// or a serialization failure (40P01, 40001) or because a migration has made the
// prepared statement invalid, fn runs again, three times at most in all, after a
// random pause, until ctx ends; it must have no other effect than its last result.
//
// The context that fn gets keeps ctx's values and deadline but not its
// cancellation: a caller that goes away does not make the outcome of a statement
// unknown. Where ctx has no deadline, or one later than the statement timeout
// and Grace, the server's own timeouts decide first and a call costs neither a
// goroutine nor a timer; a nearer deadline makes the driver ask the server to
// cancel.
//
// An error of the database is an [*Error]: NotApplied when nothing was sent or
// the server answered, Unknown when the connection ended in between, when the server
// committed without its synchronous standby because the wait was cancelled, or when fn
// sent a second statement. Other errors of fn, sql.ErrNoRows among them, are
// returned unchanged, and the statement is applied. fn must close the rows it
// opens.
func (db *DB) Once(ctx context.Context, fn func(ctx context.Context, conn *sqlx.Conn) error, opts ...Option) error {
	o := optionsOf(opts)
	err := db.repeat(ctx, func() (bool, error) {
		err := db.once(ctx, fn, o)
		return outcomeIs(err, NotApplied), err
	})
	return db.unproven(err, operationOnce, o)
}

// once runs Once's fn once.
func (db *DB) once(ctx context.Context, fn func(ctx context.Context, conn *sqlx.Conn) error, o *options) error {
	pinned, guarded, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer db.release(pinned)
	// A transaction may have left other settings in the session.
	if err = guarded.applySettings(ctx, db.engine.sessionSettings(db.settings, o)); err != nil {
		return db.acquireError(err)
	}
	guarded.statements = 0
	sentBefore := guarded.socket.written.Load()
	statementCtx, cancel := db.statementContext(ctx)
	defer cancel()
	err = fn(statementCtx, pinned)
	sent := guarded.socket.written.Load() != sentBefore
	if err == nil || !fromDatabase(statementCtx, err, guarded) {
		if unconfirmed := guarded.confirm(); unconfirmed != nil {
			return unconfirmed
		}
		return err
	}
	e := db.classify(err, sent)
	if guarded.statements > 1 {
		e.Outcome = Unknown
	}
	return withContext(statementCtx, e)
}

// fromDatabase reports whether err is of this connection, and not one that fn got
// elsewhere, such as the timeout of another service.
func fromDatabase(ctx context.Context, err error, guarded *conn) bool {
	if _, ok := answered(err); ok || ownConnectionError(err) || errors.Is(err, errTxFailed) || isType[*Error](err) {
		return true
	}
	if _, local := localReason(err); !local {
		return false
	}
	// database/sql returns the context's own error when it had ended before the
	// statement; otherwise an error of this connection leaves it broken.
	return !guarded.IsValid() || ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// detached is a context whose deadline is never signalled. database/sql and the
// driver start a goroutine each for a context with a Done channel; without one
// the connection's own deadline bounds the call.
type detached struct{ context.Context } //nolint:containedctx // it is a context

func (detached) Done() <-chan struct{} { return nil }
func (detached) Err() error            { return nil }

// endsBefore reports whether the server ends a statement that is sent now before ctx's
// deadline does. A pooler's server connection has no statement_timeout of ours.
func (db *DB) endsBefore(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	limit := time.Now().Add(db.settings.StatementTimeout + Grace)
	return db.settings.Pooler == PoolerNone && (!bounded || deadline.After(limit))
}

// statementContext returns the context that a statement of Once runs under.
func (db *DB) statementContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if db.endsBefore(ctx) {
		return detached{ctx}, func() {}
	}
	deadline, bounded := ctx.Deadline()
	limit := time.Now().Add(db.settings.StatementTimeout)
	if !bounded || deadline.After(limit) {
		deadline = limit
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}
