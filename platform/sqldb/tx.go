package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"
)

// TxOption changes one transaction.
type TxOption func(*txOptions)

type txOptions struct {
	resolve          bool
	lockTimeout      time.Duration
	statementTimeout time.Duration
	idleTimeout      time.Duration
}

// ResolveOutcome makes InTx find out what became of a COMMIT whose answer was
// lost, by the transaction's id. It costs one more round trip before COMMIT. An
// outcome that cannot be proven stays Unknown, which on MySQL is every one.
func ResolveOutcome() TxOption { return func(o *txOptions) { o.resolve = true } }

// WithLockTimeout sets lock_timeout for this transaction; on MySQL in whole
// seconds, rounded up.
func WithLockTimeout(d time.Duration) TxOption { return func(o *txOptions) { o.lockTimeout = d } }

// WithStatementTimeout sets statement_timeout for this transaction; COMMIT is
// given as long.
func WithStatementTimeout(d time.Duration) TxOption {
	return func(o *txOptions) { o.statementTimeout = d }
}

// WithIdleTimeout sets idle_in_transaction_session_timeout for this
// transaction: how long fn may stay away from the database.
func WithIdleTimeout(d time.Duration) TxOption { return func(o *txOptions) { o.idleTimeout = d } }

const (
	maxTries  = 3
	firstWait = 5 * time.Millisecond // before the second try; four times as long before the third
)

// InTx runs fn in a READ COMMITTED transaction and commits when fn returns nil.
//
// A deadlock or a serialization failure (40P01, 40001; 1213) before COMMIT makes InTx
// run fn again, three times at most, after a random pause, while ctx lasts. fn
// must therefore leave nothing behind outside the transaction. Nothing is
// repeated once COMMIT was sent.
//
// An error of fn that is not the database's is returned as it is, after a
// rollback. An error of the database is an [*Error]: NotApplied before COMMIT
// and for an answer of the server to COMMIT, Unknown for a COMMIT without an
// answer. A context that ends before COMMIT rolls back; afterwards it is
// ignored, so that it cannot make an outcome unknown.
func (db *DB) InTx(ctx context.Context, fn func(ctx context.Context, tx *sqlx.Tx) error, opts ...TxOption) error {
	var o txOptions
	for _, opt := range opts {
		opt(&o)
	}
	return db.repeat(ctx, func() (bool, error) {
		committing, lost, err := db.try(ctx, fn, &o)
		if lost != nil {
			err = db.settle(ctx, lost, err)
		}
		if committing && outcomeIs(err, Unknown) {
			db.metrics.unknown.WithLabelValues(operationTx).Inc()
		}
		return !committing, err
	})
}

// repeat calls run until it succeeds, fails for good, or has failed maxTries
// times. run tells whether its error leaves the way open to another try.
func (db *DB) repeat(ctx context.Context, run func() (again bool, err error)) error {
	wait := firstWait
	for try := 1; ; try++ {
		again, err := run()
		if err == nil {
			return nil
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !again || !e.passing() || try == maxTries || !pause(ctx, wait) {
			return err
		}
		db.metrics.retried(db.kind, e.SQLState)
		wait *= 4
	}
}

// pause waits for d, half more or less so that rivals do not meet again; false
// when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try is one run of the transaction. committing tells that COMMIT was reached;
// lost is the transaction whose COMMIT got no answer, if it can be looked up.
func (db *DB) try(
	ctx context.Context, fn func(context.Context, *sqlx.Tx) error, o *txOptions,
) (committing bool, lost *xact, err error) {
	pinned, guarded, tx, err := db.begin(ctx, o)
	if err != nil {
		return false, nil, err
	}
	defer db.release(pinned)
	defer func() {
		// After COMMIT this is a no-op; after a panic of fn it is not.
		if rbErr := tx.Rollback(); rbErr != nil && !errors.Is(rbErr, sql.ErrTxDone) && guarded.IsValid() {
			db.log.WarnContext(ctx, "rollback failed", slog.Any("error", rbErr))
		}
	}()
	if o.statementTimeout > 0 {
		guarded.guard = o.statementTimeout + Grace
	}
	if local := db.engine.localSettings(db.settings, o); local != "" {
		if _, err = tx.ExecContext(ctx, local); err != nil {
			return false, nil, txError(ctx, err, guarded)
		}
	}
	if err = fn(ctx, tx); err != nil {
		return false, nil, txError(ctx, err, guarded)
	}
	var id *xact
	if o.resolve && db.engine.resolves() {
		if id, err = readXact(ctx, tx); err != nil {
			return false, nil, txError(ctx, err, guarded)
		}
	}
	if err = ctx.Err(); err != nil {
		return false, nil, Classify(err, false)
	}
	if err = db.commit(tx); err != nil && outcomeIs(err, Unknown) {
		return true, id, err
	}
	return true, nil, err
}

// begin opens a transaction on a connection of its own. The transaction does
// not hear of ctx's end: database/sql would roll back concurrently with fn and
// with COMMIT. The statements of fn do, by the context that fn is given.
func (db *DB) begin(ctx context.Context, o *txOptions) (*sqlx.Conn, *conn, *sqlx.Tx, error) {
	for attempt := 1; ; attempt++ {
		pinned, guarded, err := db.acquire(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		err = guarded.tell(ctx, db.engine.sessionSettings(db.settings, o))
		if err == nil {
			var tx *sqlx.Tx
			tx, err = pinned.BeginTxx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err == nil {
				return pinned, guarded, tx, nil
			}
		}
		db.release(pinned)
		// BEGIN changes nothing: after a broken connection another is tried.
		if errors.Is(err, driver.ErrBadConn) && attempt < maxTries && ctx.Err() == nil {
			continue
		}
		if e := Classify(err, false); e != nil {
			return nil, nil, nil, withContext(ctx, e)
		}
		return nil, nil, nil, &Error{Outcome: NotApplied, Reason: Other, err: err}
	}
}

// txError classifies an error from inside a transaction: whatever it is,
// nothing was committed.
func txError(ctx context.Context, err error, guarded *conn) error {
	if !fromDatabase(ctx, err, guarded) {
		return err
	}
	return withContext(ctx, Classify(err, false))
}

// commit sends COMMIT. Its error is an [*Error].
func (db *DB) commit(tx *sqlx.Tx) error {
	err := tx.Commit()
	if err == nil {
		return nil
	}
	// driver.ErrBadConn: the connection had ended before COMMIT was sent.
	e := Classify(err, !errors.Is(err, driver.ErrBadConn))
	if e == nil {
		e = &Error{Outcome: Unknown, Reason: Other, err: err}
	}
	return e
}

// settle turns the error of a COMMIT without an answer into what the server
// says became of it. It runs when the transaction's connection has been given
// back: it needs another one, and the pool may have no other.
func (db *DB) settle(ctx context.Context, lost *xact, err error) error {
	switch db.resolve(ctx, lost) {
	case xactCommitted:
		return nil
	case xactAborted:
		e := *Classify(err, true)
		e.Outcome = NotApplied
		return &e
	case xactUnknown:
	}
	return err
}
