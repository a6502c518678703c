package app

import (
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Config is the configuration of a replica or a worker.
type Config struct {
	config.Common

	// CoalesceInFlight limits the groups of new events that run at once.
	CoalesceInFlight int `env:"COALESCE_IN_FLIGHT" envDefault:"1" min:"1"`
	// WorkerBatch limits the events of one transaction.
	WorkerBatch int `env:"WORKER_BATCH" envDefault:"100" min:"1" max:"1000"`
	// WorkerConcurrency limits the transactions that run at once; see Workers.
	WorkerConcurrency int `env:"WORKER_CONCURRENCY" envDefault:"2" min:"1"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"COALESCE_IN_FLIGHT": "serve: groups of new events that run at once; they take turns to lock the row of status",
		"WORKER_BATCH":       "work: maximum number of events in one transaction",
		"WORKER_CONCURRENCY": "work: transactions that a process runs at once, one fewer than DB_MAX_OPEN_CONNS at most",
	}
}

// Validate checks what no tag can express. Load calls it after Common.Validate.
func (c Config) Validate(f *config.Faults) {
	if c.DatabaseURL != "" {
		if _, err := sqldb.EngineOf(c.DatabaseURL); err != nil {
			f.Add("DATABASE_URL: "+err.Error(), "DATABASE_URL")
		}
	}
	if c.MigrateDatabaseURL != "" && onMySQL(c.MigrateDatabaseURL) != onMySQL(c.DatabaseURL) {
		f.Add("MIGRATE_DATABASE_URL must name the same kind of server as DATABASE_URL",
			"MIGRATE_DATABASE_URL", "DATABASE_URL")
	}
	if c.CoalesceInFlight > max(c.DBMaxOpenConns-reservedConns, 1) {
		f.Add("COALESCE_IN_FLIGHT must leave two of DB_MAX_OPEN_CONNS to everything else",
			"COALESCE_IN_FLIGHT", "DB_MAX_OPEN_CONNS")
	}
}

// Workers returns how many transactions a process runs at once: it leaves a connection to probes and metrics if the
// pool has two or more.
func (c Config) Workers() int { return min(c.WorkerConcurrency, max(c.DBMaxOpenConns-1, 1)) }

// reservedConns is the number of connections in the pool that new events may not use: one for the lanes, one for reads
// and probes.
const reservedConns = 2
