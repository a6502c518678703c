package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// once calls send for the one statement of a change. It inserts a row into the journal, with the id that send gets, if
// it changes anything. When its answer got lost, once returns what the row has, and what send has scanned means
// nothing; a statement that was surely not applied is sent again. Otherwise the first result is nil.
func (s *Store) once(
	ctx context.Context, send func(ctx context.Context, conn *sqlx.Conn, id uuid.UUID) error,
) (stored nullInts, err error) {
	for sends := 1; ; sends++ {
		id, begin, lost := uuid.Must(uuid.NewV7()), time.Now(), false
		err = s.db.OnceResolved(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return send(ctx, conn, id)
		}, func(ctx context.Context) (applied bool, err error) {
			lost = true
			stored, err = s.resolve(ctx, id, begin)
			return stored != nil, err
		})
		if outcome, _ := sqldb.OutcomeOf(err); err == nil || !lost || outcome == sqldb.Unknown || sends == maxSends {
			return stored, err
		}
	}
}
