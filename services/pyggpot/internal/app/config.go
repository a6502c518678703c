package app

import (
	"time"

	"github.com/rowlock/rowlock/platform/config"
)

// Config is the configuration of a replica.
type Config struct {
	config.Common

	// LockTTL is how long a lease lives.
	LockTTL time.Duration `env:"LOCK_TTL" envDefault:"10s" min:"1ms"`
	// LockRetries is how often a change tries again to lease its pot.
	LockRetries int `env:"LOCK_RETRIES" envDefault:"50" min:"0"`
	// LockRetryWait is how long it waits before each of these tries, half more or less.
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

// Validate checks what no tag can express. Load calls it beside that of Common.
func (c Config) Validate(f *config.Faults) {
	if c.DBMaxOpenConns <= reservedConns {
		f.Add("DB_MAX_OPEN_CONNS must be at least 3: changes leave two connections to reads", "DB_MAX_OPEN_CONNS")
	}
}

// reservedConns is how many connections of the pool changes may not use: they are for reads and probes.
const reservedConns = 2
