package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// store holds the methods of both adapters.
type store interface {
	event.Repository
	event.Queue
	Close(ctx context.Context) error
}

// engines returns the supported engines.
func engines() []sqldb.Engine { return []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL} }

// onMySQL reports whether url names a database of MySQL or MariaDB.
func onMySQL(url string) bool {
	kind, err := sqldb.EngineOf(url)
	return err == nil && kind == sqldb.MySQL
}

// migrations returns the migrations for the engine of DATABASE_URL.
func migrations(c Config) migrate.Source {
	if onMySQL(c.DatabaseURL) {
		return mysql.Migrations()
	}
	return postgres.Migrations()
}

// session returns the session settings, none for MySQL.
func session(c Config) map[string]string {
	if onMySQL(c.DatabaseURL) {
		return nil
	}
	return postgres.Session()
}

// check returns a function that refuses a database whose table status cannot give ids.
func check(c Config) func(context.Context, *sqldb.DB) error {
	if onMySQL(c.DatabaseURL) {
		return mysql.Check
	}
	return postgres.Check
}

// openStore returns a store on the database of limits.
//
//nolint:ireturn // one of two adapters
func openStore(c Config, limits groupcommit.Limits) (store, error) {
	if onMySQL(c.DatabaseURL) {
		return mysql.New(limits)
	}
	return postgres.New(limits)
}

// slotsIn returns the schema of the slots, empty for MySQL, which has none. The slots are beside the migrations'
// history: they need a key, and the tables of schema events may have none.
func slotsIn(c Config) string {
	if onMySQL(c.DatabaseURL) {
		return ""
	}
	return postgres.Migrations().HistorySchema
}
