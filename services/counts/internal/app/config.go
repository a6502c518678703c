package app

import (
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Config is the configuration of a replica.
type Config struct {
	config.Common

	// InternalHTTPAddr, when set, serves /api/v1/internal/* instead of HTTPAddr.
	InternalHTTPAddr string `env:"INTERNAL_HTTP_ADDR"`
	// CoalesceInFlight limits the groups of changes that run at once.
	CoalesceInFlight int `env:"COALESCE_IN_FLIGHT" envDefault:"1" min:"1"`
	// KeyTTL is the time to live of an Idempotency-Key.
	KeyTTL time.Duration `env:"KEY_TTL" envDefault:"15m" min:"1m" max:"24h"`
	// CleanupInterval is the time between two deletions of expired keys.
	CleanupInterval time.Duration `env:"CLEANUP_INTERVAL" envDefault:"10s" min:"1ms"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"INTERNAL_HTTP_ADDR": "when set, /api/v1/internal/* is served here and nowhere else",
		"COALESCE_IN_FLIGHT": "groups of changes that run at once; a distant database needs more than 1, at most " +
			"DB_MAX_OPEN_CONNS - 2",
		"KEY_TTL":          "how long the answer to an Idempotency-Key is kept; afterwards the key counts as new",
		"CLEANUP_INTERVAL": "how often expired keys are deleted",
	}
}

// Defaults replaces defaults of Common: a body holds up to counting.MaxChanges changes of items with long ids.
func (Config) Defaults() map[string]string { return map[string]string{"MAX_BODY": "512KiB"} }

// Validate checks what no tag can express. Load calls it after Common.Validate.
func (c Config) Validate(f *config.Faults) {
	if c.InternalHTTPAddr != "" {
		f.Address("INTERNAL_HTTP_ADDR", c.InternalHTTPAddr)
	}
	if c.CoalesceInFlight > max(c.DBMaxOpenConns-postgres.ReservedConns, 1) {
		f.Add("COALESCE_IN_FLIGHT must leave two of DB_MAX_OPEN_CONNS to everything else", "COALESCE_IN_FLIGHT",
			"DB_MAX_OPEN_CONNS")
	}
}
