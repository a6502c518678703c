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

// onMySQL reports whether url names a database of MySQL or MariaDB.
func onMySQL(url string) bool {
	kind, err := sqldb.EngineOf(url)
	return err == nil && kind == sqldb.MySQL
}

// database describes the database of DATABASE_URL.
type database struct {
	migrations migrate.Source
	session    map[string]string // none for MySQL
	// slots is the schema of the slots, empty for MySQL, which has none.
	slots string
	// check refuses a database whose table status cannot give ids.
	check func(context.Context, *sqldb.DB) error
	open  func(groupcommit.Limits) store
}

func databaseOf(c Config) database {
	if onMySQL(c.DatabaseURL) {
		return database{
			migrations: mysql.Migrations(), check: mysql.Check,
			open: func(l groupcommit.Limits) store { return mysql.New(l) },
		}
	}

	source := postgres.Migrations()
	return database{
		// The slots are beside the migrations' history: they need a key, and the tables of schema events may have none.
		migrations: source, session: postgres.Session(), slots: source.HistorySchema, check: postgres.Check,
		open: func(l groupcommit.Limits) store { return postgres.New(l) },
	}
}
