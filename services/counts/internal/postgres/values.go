package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// row is a count_values row.
type row struct {
	ItemID    string    `db:"item_id"`
	Current   int64     `db:"current_value"`
	UpdatedAt time.Time `db:"last_updated_at"`
}

func (r row) value() counting.CountValue {
	return counting.CountValue{ItemID: counting.ItemID(r.ItemID), Current: r.Current, UpdatedAt: r.UpdatedAt.UTC()}
}

// Create implements counting.CountValueRepository.
func (s *Store) Create(ctx context.Context, id counting.ItemID, initial int64) (counting.CountValue, error) {
	const query = `
INSERT INTO counts.count_values (item_id, current_value)
SELECT $2, $3::bigint
 WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
ON CONFLICT (item_id) DO NOTHING
RETURNING item_id, current_value, last_updated_at`
	return s.change(ctx, id, counting.ErrExists, query, initial)
}

// Set implements counting.CountValueRepository.
func (s *Store) Set(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (counting.CountValue, bool, error) {
	if key.Value != "" {
		return counting.CountValue{}, false, errNotYet
	}
	const query = `
UPDATE counts.count_values
   SET current_value = $3, last_updated_at = clock_timestamp()
 WHERE item_id = $2
   AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
RETURNING item_id, current_value, last_updated_at`
	v, err := s.change(ctx, id, counting.ErrNotFound, query, value)
	return v, false, err
}

// Delete implements counting.CountValueRepository.
func (s *Store) Delete(ctx context.Context, id counting.ItemID) error {
	const query = `
DELETE FROM counts.count_values
 WHERE item_id = $2
   AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
RETURNING item_id, current_value, last_updated_at`
	_, err := s.change(ctx, id, counting.ErrNotFound, query)
	return err
}

// change runs one statement that changes at most one row, and returns that row; it returns none when there was
// nothing to change. The statement's first parameters are its lock_timeout, which it sets for itself as those of
// add.go do, and the id. Callers of one count queue without a connection, and all of them together leave some
// connections to the groups, those of locked counts some to the others: otherwise many resets of locked counts would
// stop every other change.
func (s *Store) change(
	ctx context.Context, id counting.ItemID, none error, query string, args ...any,
) (counting.CountValue, error) {
	var r row
	err := s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(lockWait time.Duration) error {
		return s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			begin := time.Now()
			err := tx.GetContext(ctx, &r, query, append([]any{sqldb.Milliseconds(lockWait), string(id)}, args...)...)
			s.lock.Waited(contention.InDatabase, time.Since(begin))
			if errors.Is(err, sql.ErrNoRows) {
				return none
			}
			return err
		}, sqldb.ResolveOutcome())
	}, sqldb.LockTimedOut)
	if err != nil {
		return counting.CountValue{}, err
	}
	return r.value(), nil
}

// Find implements counting.CountValueRepository.
func (s *Store) Find(ctx context.Context, id counting.ItemID) (counting.CountValue, error) {
	const query = `
SELECT item_id, current_value, last_updated_at
  FROM counts.count_values
 WHERE item_id = $1`
	var r row
	err := s.db.GetContext(ctx, &r, query, string(id))
	if errors.Is(err, sql.ErrNoRows) {
		return counting.CountValue{}, counting.ErrNotFound
	}
	if err != nil {
		return counting.CountValue{}, err
	}
	return r.value(), nil
}

// FindMany implements counting.CountValueRepository.
func (s *Store) FindMany(ctx context.Context, ids []counting.ItemID) ([]counting.CountValue, error) {
	const query = `
SELECT item_id, current_value, last_updated_at
  FROM counts.count_values
 WHERE item_id = ANY ($1)`
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	var rows []row
	if err := s.db.SelectContext(ctx, &rows, query, pq.StringArray(names)); err != nil {
		return nil, err
	}
	return toValues(rows), nil
}

func toValues(rows []row) []counting.CountValue {
	values := make([]counting.CountValue, len(rows))
	for i, r := range rows {
		values[i] = r.value()
	}
	return values
}
