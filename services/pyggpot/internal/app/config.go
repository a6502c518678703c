package app

import (
	"time"

	"github.com/rowlock/rowlock/platform/config"
)

// Config is what the environment tells a replica.
type Config struct {
	config.Common

	// LockTTL is how long a lease lives.
	LockTTL time.Duration `env:"LOCK_TTL" envDefault:"10s" min:"1ms"`
	// LockRetries is how often a change tries again to get its lease.
	LockRetries int `env:"LOCK_RETRIES" envDefault:"50" min:"0"`
	// LockRetryWait is how long it waits before.
	LockRetryWait time.Duration `env:"LOCK_RETRY_WAIT" envDefault:"20ms" min:"1ms"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"LOCK_TTL":        "how long the lease of a holder that died or stalled keeps its pot",
		"LOCK_RETRIES":    "how often a change tries again to lease a pot that another replica holds, then aborted",
		"LOCK_RETRY_WAIT": "how long it waits before each of these, half more or less",
	}
}

// Validate checks what no tag can say. Load calls it beside Common's own.
func (c Config) Validate(f *config.Faults) {
	if c.DBMaxOpenConns <= reservedConns {
		f.Add("DB_MAX_OPEN_CONNS must be at least 3: changes leave two connections to everything else", "DB_MAX_OPEN_CONNS")
	}
}

// reservedConns are connections for reads.
const reservedConns = 2
