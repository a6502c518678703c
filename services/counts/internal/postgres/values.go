package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
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
	if s.onCitus() {
		return s.createOnShard(ctx, id, initial)
	}
	const query = `
WITH changed AS (
    INSERT INTO counts.count_values (item_id, current_value)
    SELECT $2, $5::bigint
     WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
    ON CONFLICT (item_id) DO NOTHING
    RETURNING last_updated_at
)` + journalChange
	updated, err := s.change(ctx, id, counting.ErrExists, query, initial)
	return counting.CountValue{ItemID: id, Current: initial, UpdatedAt: updated}, err
}

// Set implements counting.CountValueRepository.
func (s *Store) Set(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (counting.CountValue, bool, error) {
	switch {
	case key.Value != "":
		return s.setKeyed(ctx, key, id, value)
	case s.onCitus():
		updated, err := s.changeOnShard(ctx, id, setOnShardSQL, value)
		return counting.CountValue{ItemID: id, Current: value, UpdatedAt: updated}, false, err
	}
	const query = `
WITH changed AS (
    UPDATE counts.count_values
       SET current_value = $5, last_updated_at = clock_timestamp()
     WHERE item_id = $2
       AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
    RETURNING last_updated_at
)` + journalChange
	updated, err := s.change(ctx, id, counting.ErrNotFound, query, value)
	return counting.CountValue{ItemID: id, Current: value, UpdatedAt: updated}, false, err
}

// Delete implements counting.CountValueRepository.
func (s *Store) Delete(ctx context.Context, id counting.ItemID) error {
	if s.onCitus() {
		_, err := s.changeOnShard(ctx, id, deleteOnShardSQL)
		return err
	}
	const query = `
WITH changed AS (
    DELETE FROM counts.count_values
     WHERE item_id = $2
       AND (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
    RETURNING last_updated_at
)` + journalChange
	_, err := s.change(ctx, id, counting.ErrNotFound, query)
	return err
}

// journalChange ends the statement of a change, which inserts its row into the journal and returns the time of the
// change in microseconds.
const journalChange = `, result AS MATERIALIZED (
    SELECT (extract(epoch FROM last_updated_at) * 1000000)::bigint AS updated
      FROM changed
), journal AS (
    INSERT INTO counts.journal (id, results, expires_at)
    SELECT $3, ARRAY[updated], clock_timestamp() + $4 * interval '1 microsecond'
      FROM result
)
SELECT updated
  FROM result`

// change runs one statement that changes at most one row, and returns the time of the row's last change; it returns
// none when there was nothing to change. The statement's first parameters are its lock_timeout, which it sets for
// itself as those of add.go do, the id, and those of journalChange. Callers of one count queue without a connection,
// and all of them together leave some connections to the groups, those of locked counts some to the others: otherwise
// many resets of locked counts would stop every other change.
func (s *Store) change(
	ctx context.Context, id counting.ItemID, none error, query string, args ...any,
) (updated time.Time, err error) {
	var micros int64
	err = s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(lockWait time.Duration) error {
		begin := time.Now()
		stored, err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn, journal uuid.UUID) error {
			first := []any{sqldb.Milliseconds(lockWait), string(id), journal, s.journalTTL.Microseconds()}
			return conn.GetContext(ctx, &micros, query, append(first, args...)...)
		})
		s.lock.Waited(contention.InDatabase, time.Since(begin))
		if stored != nil {
			micros = stored[0].value
		}
		if errors.Is(err, sql.ErrNoRows) {
			return none
		}
		return err
	}, sqldb.LockTimedOut)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micros).UTC(), nil
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
