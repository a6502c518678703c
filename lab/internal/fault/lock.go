package fault

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"
)

// Lock describes a row that another transaction locks for a while.
type Lock struct {
	// Statement locks the row.
	Statement string
	// Locked is called when it is locked, Unlocking before the transaction ends. Both may be nil.
	Locked, Unlocking func()
	// Commit says that the transaction commits, and does not roll back.
	Commit bool
}

var errRollback = errors.New("roll back")

// lock locks a row that the service's clients want, in a transaction that stays open
// until unlock.
func (in *Injector) lock(ctx context.Context, t *Target) error {
	l := t.Lock(ctx)
	locked, release, ended := make(chan int64, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		err := in.DB.InTx(context.WithoutCancel(ctx), func(ctx context.Context, tx *sqlx.Tx) error {
			// PostgreSQL 17 has one more limit that a transaction which waits may run into.
			_, err := tx.ExecContext(ctx, `SELECT set_config(name, '0', true) FROM pg_settings
				WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`)
			if err != nil {
				return err //nolint:wrapcheck // InTx classifies it
			}
			result, err := tx.ExecContext(ctx, l.Statement)
			if err != nil {
				return err //nolint:wrapcheck // as above
			}
			n, err := result.RowsAffected()
			locked <- n
			<-release
			if l.Unlocking != nil {
				l.Unlocking()
			}
			if err == nil && !l.Commit {
				err = errRollback
			}
			return err
		})
		if errors.Is(err, errRollback) {
			err = nil
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case n := <-locked:
		if n > 0 {
			t.count(LockOn, 1)
			if l.Locked != nil {
				l.Locked()
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release = func() error {
		close(release)
		return <-ended
	}
	return nil
}

// unlock ends the transaction that lock has left open, if any.
func (t *Target) unlock() error {
	t.mu.Lock()
	release := t.release
	t.release = nil
	t.mu.Unlock()
	if release == nil {
		return nil
	}
	return release()
}
