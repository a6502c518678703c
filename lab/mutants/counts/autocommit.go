// Mutant of services/counts/internal/postgres/once.go: a write by the pool's autocommit Exec.

package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// once does what database/sql does when the driver returns ErrBadConn: it sends the statement again, up to three times,
// although the server may have committed it. It takes the id where it sends: with the id of the first time the journal
// would refuse the second.
func (s *Store) once(
	ctx context.Context, send func(ctx context.Context, conn *sqlx.Conn, id uuid.UUID) error,
) (_ nullInts, err error) {
	for range 3 {
		err = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return send(ctx, conn, uuid.Must(uuid.NewV7()))
		})
		if outcome, known := sqldb.OutcomeOf(err); !known || outcome != sqldb.Unknown {
			break
		}
	}
	return nil, err
}
