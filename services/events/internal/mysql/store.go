package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations. A schema is a database in MySQL, so the history is a table beside the
// service's two.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Engine: sqldb.MySQL, Schema: "events"}
}

// Store is an event.Repository and an event.Queue on MySQL or MariaDB.
type Store struct {
	db    *sqldb.DB
	adds  *groupcommit.Committer[struct{}, event.New, event.ID]
	turns turns
}

var (
	_ event.Repository = (*Store)(nil)
	_ event.Queue      = (*Store)(nil)
)

// New returns a store on the database of limits, whose schema must be migrated.
func New(limits groupcommit.Limits) (*Store, error) {
	adds, err := groupcommit.New(groupcommit.Config[struct{}, event.New, event.ID]{
		Limits: limits,
		Name:   "events_add",
		Key:    func(event.New) struct{} { return struct{}{} }, // the one row of status
		Size:   event.New.Size,
		Send:   insertGroup,

		Transaction: true,
	})
	s := &Store{db: limits.DB, adds: adds}
	s.turns.next.Store(rand.Uint64N(parts)) // processes that start together begin at different parts
	return s, err
}

// Close waits until every new event in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error { return s.adds.Close(ctx) }

// Check returns event.ErrStatus unless status holds exactly one row: with none no event can get an id, with two each id
// would be given twice. It also returns an error for a server that would refuse every write.
func Check(ctx context.Context, db *sqldb.DB) error {
	var rows int64
	if err := db.GetContext(ctx, &rows, `SELECT count(*) FROM status`); err != nil {
		return err
	}
	if rows != 1 {
		return fmt.Errorf("%w: it holds %d", event.ErrStatus, rows)
	}
	return checkBinlog(ctx, db)
}

// checkBinlog returns an error when the server would refuse every write: at READ COMMITTED InnoDB writes no statements
// to the binary log (error 1665).
func checkBinlog(ctx context.Context, db *sqldb.DB) error {
	var refuses bool
	if err := db.GetContext(ctx, &refuses, `SELECT @@log_bin AND @@binlog_format = 'STATEMENT'`); err != nil {
		return err
	}
	if refuses {
		return errors.New("the server runs with binlog_format=STATEMENT and so refuses writes at READ COMMITTED: " +
			"use ROW or MIXED")
	}
	return nil
}

// Find implements event.Repository. A single statement sees an event before or after a worker moves it, never in
// between. An id has one row, so LIMIT ends the scan at it.
func (s *Store) Find(ctx context.Context, id event.ID) (event.Event, error) {
	const query = `SELECT value FROM events WHERE id = ? LIMIT 1`
	var value sql.NullString
	err := s.db.GetContext(ctx, &value, query, int64(id))
	if errors.Is(err, sql.ErrNoRows) {
		return event.Event{}, event.ErrNotFound
	}
	if err != nil {
		return event.Event{}, err
	}
	return event.Event{ID: id, Value: value.String, Pending: !value.Valid}, nil
}

// Count implements event.Repository. It reads status: the highest id is the number of events, because an event commits
// together with its id.
func (s *Store) Count(ctx context.Context) (n int64, err error) {
	err = s.db.GetContext(ctx, &n, `SELECT id FROM status`)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, event.ErrStatus
	}
	return n, err
}

// Backlog implements event.Queue.
func (s *Store) Backlog(ctx context.Context) (event.Backlog, error) {
	const query = `
SELECT count(*) AS pending, coalesce((SELECT max(id) FROM status) - min(id) + 1, 0) AS distance
  FROM events
 WHERE value IS NULL`
	var b struct {
		Pending  int64 `db:"pending"`
		Distance int64 `db:"distance"`
	}
	if err := s.db.GetContext(ctx, &b, query); err != nil {
		return event.Backlog{}, err
	}
	return event.Backlog{Pending: b.Pending, Distance: b.Distance}, nil
}
