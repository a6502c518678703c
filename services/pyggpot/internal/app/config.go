package app

import (
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

// Config is the configuration of a replica.
type Config struct {
	config.Common

	// LockTTL is the lifetime of a lease.
	LockTTL time.Duration `env:"LOCK_TTL" envDefault:"10s" min:"1ms"`
	// LockRetries limits how often a change tries again to lease its pot.
	LockRetries int `env:"LOCK_RETRIES" envDefault:"50" min:"0"`
	// LockRetryWait is the wait before each of these tries, give or take half of it.
	LockRetryWait time.Duration `env:"LOCK_RETRY_WAIT" envDefault:"20ms" min:"1ms"`
	// CoalesceInFlight limits the groups of changes that run at once.
	CoalesceInFlight int `env:"COALESCE_IN_FLIGHT" envDefault:"1" min:"1"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"LOCK_TTL":        "how long the lease of a holder that died or stalled keeps its pot",
		"LOCK_RETRIES":    "how often a change tries again to lease a pot that another replica holds; then it is aborted",
		"LOCK_RETRY_WAIT": "wait before each of these tries, give or take half of it",
		"COALESCE_IN_FLIGHT": "groups of changes that run at once; a distant database needs more than 1, at most " +
			"DB_MAX_OPEN_CONNS - 2",
	}
}

// Validate checks what no tag can express. Load calls it after Common.Validate.
func (c Config) Validate(f *config.Faults) {
	if c.DBMaxOpenConns < c.CoalesceInFlight+postgres.ReservedConns {
		f.Add("COALESCE_IN_FLIGHT must leave two of DB_MAX_OPEN_CONNS to contended pots and to reads", "COALESCE_IN_FLIGHT",
			"DB_MAX_OPEN_CONNS")
	}
}
