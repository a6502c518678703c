package postgres

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/events/internal/event"
)

// claimed holds a row of claimSQL.
type claimed struct {
	ID    int64  `db:"id"`
	Place string `db:"place"`
}

// Work implements event.Queue.
func (s *Store) Work(ctx context.Context, limit int, value func(event.ID) string) (int, error) {
	from := s.start.next()
	n, last, err := s.work(ctx, limit, from, value)
	if err == nil && n < limit && from != heapStart {
		// No more events follow that place, so the next claim reads from the start.
		s.start.reset()
		if n == 0 {
			n, last, err = s.work(ctx, limit, heapStart, value)
		}
	}
	if err == nil && n == limit {
		s.start.move(last)
	}
	return n, err
}

// work runs one transaction. It returns how many events it worked, and the place of the last one.
func (s *Store) work(
	ctx context.Context, limit int, from string, value func(event.ID) string,
) (n int, last string, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var rows []claimed
		if err := tx.SelectContext(ctx, &rows, claimSQL, limit, from); err != nil {
			return err
		}
		if len(rows) == 0 {
			return errNothing
		}
		ids, places, values := make([]int64, len(rows)), make([]string, len(rows)), make([]string, len(rows))
		for i, r := range rows {
			ids[i], places[i], values[i] = r.ID, r.Place, value(event.ID(r.ID))
		}
		result, err := tx.ExecContext(ctx, finishSQL, pq.Array(ids), pq.Array(places), pq.Array(values))
		if err != nil {
			return err
		}
		moved, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if moved != int64(len(rows)) {
			return fmt.Errorf("%d events of %d claimed ones were finished: nothing is stored", moved, len(rows))
		}
		n, last = len(rows), rows[len(rows)-1].Place
		return nil
	})
	if err == errNothing { //nolint:errorlint // returned as it is
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	return n, last, nil
}
