package mysql

import (
	"context"
	"embed"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/eventdb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations. A schema is a database in MySQL, so the history is a table beside the
// service's two.
func Migrations() migrate.Source {
	return migrate.Source{
		FS: migrations, Engine: sqldb.MySQL, Schema: "events",
		Rights: []string{"SELECT, UPDATE ON status", "SELECT, INSERT, UPDATE ON events"},
	}
}

// Store is an event.Repository and an event.Queue on MySQL or MariaDB.
type Store struct {
	eventdb.Store

	next    atomic.Uint64 // selects the partition that the next claim reads
	backlog atomic.Bool   // whether the last claim reached its limit
}

var _ event.Queue = (*Store)(nil)

// New returns a store on the database of limits, whose schema must be migrated.
func New(limits groupcommit.Limits) *Store {
	s := &Store{Store: eventdb.New(limits, eventdb.Queries{
		Find:  `SELECT value FROM events WHERE id = ? LIMIT 1`, // an id has one row, at which LIMIT ends the scan
		Count: `SELECT id FROM status`,
		Backlog: `
SELECT count(*) AS pending, coalesce((SELECT max(id) FROM status) - min(id) + 1, 0) AS distance
  FROM events
 WHERE value IS NULL`,
	}, eventdb.Config{Send: insertGroup, Transaction: true})}
	s.next.Store(rand.Uint64N(parts)) // processes that start together begin at different parts
	return s
}

// Check returns event.ErrStatus unless status holds exactly one row, and an error for a server that would refuse every
// write.
func Check(ctx context.Context, db *sqldb.DB) error {
	if err := eventdb.Check(ctx, db, "status"); err != nil {
		return err
	}

	// At READ COMMITTED InnoDB writes no statements to the binary log (error 1665).
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
