//go:build bug_autocommit

package postgres

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// once is the mutant "a write by the pool's autocommit Exec": it does what database/sql does when the driver returns
// ErrBadConn, and sends the statement again, up to three times, although the server may have committed it.
func (s *Store) once(ctx context.Context, fn func(ctx context.Context, conn *sqlx.Conn) error) (err error) {
	for range 3 {
		err = s.db.Once(ctx, fn)
		if outcome, known := sqldb.OutcomeOf(err); !known || outcome != sqldb.Unknown {
			break
		}
	}
	return err
}
