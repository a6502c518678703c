// Package eventdb holds what the stores of both engines share: new events are added in groups, and read.
package eventdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// ErrNothing rolls back a claim that found no event.
var ErrNothing = errors.New("nothing is pending")

// Queries are the statements that read. Their texts depend on the engine.
type Queries struct {
	Find    string // the value of an id
	Count   string // the id in status
	Backlog string // the columns pending and distance
}

// Store is an event.Repository, and the part of an event.Queue that reads.
type Store struct {
	DB *sqldb.DB

	queries Queries
	adds    *groupcommit.Committer[struct{}, event.New, event.ID]
}

var _ event.Repository = (*Store)(nil)

// Config says how a group of new events is sent. New sets the other fields.
type Config = groupcommit.Config[struct{}, event.New, event.ID]

// New returns a store on the database of limits, whose schema must be migrated.
func New(limits groupcommit.Limits, q Queries, c Config) Store {
	c.Limits, c.Name, c.Size = limits, "events_add", event.New.Size
	c.Key = func(event.New) struct{} { return struct{}{} } // the one row of status
	return Store{limits.DB, q, groupcommit.New(c)}
}

// Close waits until every new event in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error { return s.adds.Close(ctx) }

// Check returns event.ErrStatus unless the table status holds exactly one row: with none no event can get an id, with
// two each id would be given twice.
func Check(ctx context.Context, db *sqldb.DB, status string) error {
	var rows int64
	if err := db.GetContext(ctx, &rows, `SELECT count(*) FROM `+status); err != nil {
		return err
	}
	if rows != 1 {
		return fmt.Errorf("%w: %s holds %d", event.ErrStatus, status, rows)
	}
	return nil
}

// Add stores a new event under the next id and returns the id once it is committed. Concurrent adds share one commit.
func (s *Store) Add(ctx context.Context, n event.New) (event.ID, error) { return s.adds.Do(ctx, n) }

// Find implements event.Repository. A single statement sees an event before or after a worker moves it, never in
// between.
func (s *Store) Find(ctx context.Context, id event.ID) (event.Event, error) {
	var value sql.NullString
	err := s.DB.GetContext(ctx, &value, s.queries.Find, int64(id))
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
	err = s.DB.GetContext(ctx, &n, s.queries.Count)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, event.ErrStatus
	}
	return n, err
}

// Backlog implements event.Queue.
func (s *Store) Backlog(ctx context.Context) (b event.Backlog, err error) {
	err = s.DB.GetContext(ctx, &b, s.queries.Backlog)
	return b, err
}

// Change runs a statement and returns an error unless it changed exactly want rows, upon
// which its transaction is rolled back.
func Change(ctx context.Context, s groupcommit.Session, want int, query string, args ...any) error {
	result, err := s.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	got, err := result.RowsAffected()
	if err == nil && got != int64(want) {
		err = fmt.Errorf("the statement changed %d rows of %d: nothing is stored", got, want)
	}
	return err
}
