package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/events/internal/allocate"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// store is what both adapters are.
type store interface {
	event.Repository
	event.Queue
	Close(ctx context.Context) error
}

// engines are those that there is an adapter for.
func engines() []sqldb.Engine { return []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL} }

// onMySQL tells the engine; Config.Validate has seen that the URL names one.
func onMySQL(c Config) bool {
	kind, err := sqldb.EngineOf(c.DatabaseURL)
	return err == nil && kind == sqldb.MySQL
}

// migrations are those of the engine behind DATABASE_URL.
func migrations(c Config) migrate.Source {
	if onMySQL(c) {
		return mysql.Migrations()
	}
	return postgres.Migrations()
}

// check refuses a database whose status cannot give ids.
func check(c Config) func(context.Context, *sqldb.DB) error {
	if onMySQL(c) {
		return mysql.Check
	}
	return postgres.Check
}

//nolint:ireturn // one of two adapters
func openStore(c Config, db *sqldb.DB, lock *contention.Metrics, tel *telemetry.Telemetry) (store, error) {
	o := allocate.Options{
		InFlight: c.CoalesceInFlight, Queue: c.MaxInFlight, LockTimeout: c.DBLockTimeout, StatementTimeout: c.DBStatementTimeout,
		Contention: lock, TracerProvider: tel.Tracing(),
	}
	reg := tel.Registry()
	if onMySQL(c) {
		return mysql.New(db, o, reg)
	}
	return postgres.New(db, o, reg)
}
