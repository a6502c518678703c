package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"
)

// Option configures one call of InTx, or a statement of Once.
type Option func(*options)

type options struct {
	proven           bool
	lockTimeout      time.Duration
	statementTimeout time.Duration
}

func optionsOf(all []Option) *options {
	var o options
	for _, set := range all {
		set(&o)
	}
	return &o
}

// Proven says that the caller passes an error with the outcome Unknown to [DB.Resolve], which then counts it if it
// stays so.
func Proven() Option { return func(o *options) { o.proven = true } }

// Age returns the time since a statement was sent, for a look-up that asks whether what proves its outcome may have
// been deleted. The clock of time.Since stands still while a machine is suspended; the other may be set back.
func Age(sent time.Time) time.Duration {
	return max(time.Since(sent), time.Now().Round(0).Sub(sent.Round(0)))
}

// WithLockTimeout sets lock_timeout for this transaction; on MySQL in whole
// seconds, rounded up. On ClusterCitus it reaches the workers.
func WithLockTimeout(d time.Duration) Option { return func(o *options) { o.lockTimeout = d } }

// WithStatementTimeout sets statement_timeout for this transaction, and the bound of
// its COMMIT.
func WithStatementTimeout(d time.Duration) Option {
	return func(o *options) { o.statementTimeout = d }
}

const (
	maxTries  = 3
	firstWait = 5 * time.Millisecond // before the second attempt; four times as long before the third
)

// InTx runs fn in a READ COMMITTED transaction and commits when fn returns nil.
//
// After a deadlock or a serialization failure (40P01, 40001; 1213) before COMMIT, InTx
// runs fn again, three times at most in all, after a random pause, until ctx ends; and
// while a migration has made the prepared statements of a connection invalid. fn must
// therefore have no effects outside the transaction. Nothing is repeated once COMMIT was
// sent.
//
// An error of fn that is not the database's is returned unchanged, after a rollback.
// An error of the database is an [*Error]: NotApplied before COMMIT and for an answer
// of the server to COMMIT, Unknown for a COMMIT without an answer, or with one that a
// synchronous standby did not confirm. On [ClusterCitus] fewer answers prove NotApplied.
// A context that ends before COMMIT rolls back; afterwards it is ignored, so that it
// cannot make an outcome unknown.
func (db *DB) InTx(ctx context.Context, fn func(ctx context.Context, tx *sqlx.Tx) error, opts ...Option) error {
	o := optionsOf(opts)
	err := db.repeat(ctx, func() (again bool, err error) { return db.runTx(ctx, fn, o) })
	return db.countUnknown(err, operationTx, o)
}

// repeat calls run until it returns false, for what must not be run again after its error, or has been called maxTries
// times. A statement that a migration has made invalid does not count: each connection of the pool may hold one, and is
// closed with it.
func (db *DB) repeat(ctx context.Context, run func() (again bool, err error)) error {
	outdated := db.settings.MaxOpenConns
	wait := firstWait
	for tries := 1; ; {
		again, err := run()
		if !again {
			return err
		}

		e, ours := errors.AsType[*Error](err)
		switch {
		case ours && e.Reason == Outdated && outdated > 0:
			outdated--
		case tries == maxTries || !Pause(ctx, wait):
			return err
		default:
			tries++
			wait *= 4
		}
		if transient(err) {
			db.metrics.retries.WithLabelValues(SQLState(err)).Inc()
		}
	}
}

// Pause waits before another try, for a random time between half of d and one and a half of
// it, so that competing processes do not collide again. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d/2 + rand.N(d)):
		return true
	case <-ctx.Done():
		return false
	}
}

// runTx runs the transaction once, and returns whether it may be run again after its error.
func (db *DB) runTx(
	ctx context.Context, fn func(context.Context, *sqlx.Tx) error, o *options,
) (again bool, err error) {
	pinned, guarded, tx, err := db.begin(ctx, o)
	if err != nil {
		return lostInTime(err), err
	}
	defer release(pinned)
	defer func() {
		// After COMMIT this is a no-op; after a panic of fn it is not.
		if rbErr := tx.Rollback(); rbErr != nil && !errors.Is(rbErr, sql.ErrTxDone) && guarded.IsValid() {
			db.log.WarnContext(ctx, "rollback failed", slog.Any("error", rbErr))
		}
	}()

	if o.statementTimeout > 0 {
		guarded.maxWait = o.statementTimeout + Grace
	}
	if err = fn(ctx, tx); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = txError(ctx, err, guarded)
		return transient(err), err
	}
	return false, db.commit(tx)
}

// begin opens a transaction on a connection of its own. The end of ctx does not end
// the transaction, because database/sql would roll back concurrently with fn and with
// COMMIT; it ends the statements of fn, which get ctx themselves.
func (db *DB) begin(ctx context.Context, o *options) (*sqlx.Conn, *conn, *sqlx.Tx, error) {
	pinned, guarded, err := db.acquire(ctx, o)
	if err != nil {
		return nil, nil, nil, err
	}

	guarded.beginSQL = db.engine.beginSQL(db.settings, o)
	tx, err := pinned.BeginTxx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err == nil {
		return pinned, guarded, tx, nil
	}
	release(pinned)
	e := cmp.Or(Classify(err, false), &Error{Outcome: NotApplied, Reason: Other, err: err})
	return nil, nil, nil, withContext(ctx, e)
}

// txError classifies an error from inside a transaction. Nothing was committed.
func txError(ctx context.Context, err error, guarded *conn) error {
	if !fromDatabase(ctx, err, guarded) {
		return err
	}
	return withContext(ctx, Classify(err, false))
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

// commit sends COMMIT. Its error is an [*Error].
func (db *DB) commit(tx *sqlx.Tx) error {
	err := tx.Commit()
	if err == nil {
		return nil
	}
	// driver.ErrBadConn: the connection had ended before COMMIT was sent.
	if e := db.classify(err, !errors.Is(err, driver.ErrBadConn)); e != nil {
		return e
	}
	return &Error{Outcome: Unknown, Reason: Other, err: err}
}
