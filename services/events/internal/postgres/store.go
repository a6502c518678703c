package postgres

import (
	"context"
	"embed"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/eventdb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations. Their history has a key, so it is in another schema than events, where
// nothing has one.
func Migrations() migrate.Source {
	const all = "SELECT, INSERT, UPDATE, DELETE ON "
	return migrate.Source{
		FS: migrations, Schema: "events", HistorySchema: "events_meta",
		Rights: []string{
			"USAGE ON SCHEMA events", "SELECT, UPDATE ON events.status", all + "events.events",
			"USAGE ON SCHEMA events_meta", all + "events_meta.slots",
		},
	}
}

// Session returns the session settings that the statements rely on: each is planned once. Planning a group's statement
// takes longer than running it (PostgreSQL 15, one event: 0.49 ms with planning, 0.22 ms without, medians of three).
func Session() map[string]string { return map[string]string{"plan_cache_mode": "force_generic_plan"} }

// Store is an event.Repository and an event.Queue on PostgreSQL.
type Store struct {
	eventdb.Store

	start startingPoint
}

var _ event.Queue = (*Store)(nil)

// New returns a store on the database of limits, whose schema must be migrated.
func New(limits groupcommit.Limits) *Store {
	return &Store{Store: eventdb.New(limits, eventdb.Queries{
		Find:  `SELECT value FROM events.events WHERE id = $1 LIMIT 1`, // an id has one row, at which LIMIT ends the scan
		Count: `SELECT id FROM events.status`,
		Backlog: `
SELECT count(*) AS pending, coalesce((SELECT id FROM events.status) - min(id) + 1, 0) AS distance
  FROM events.events
 WHERE value IS NULL`,
	}, eventdb.Config{Send: insertGroup})}
}

// Check returns event.ErrStatus unless status holds exactly one row.
func Check(ctx context.Context, db *sqldb.DB) error { return eventdb.Check(ctx, db, "events.status") }
