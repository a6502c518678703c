package app

import (
	"fmt"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// Config is a replica's configuration.
type Config struct {
	config.Common

	// BulkTimeout limits the time of a request with a long body, its upload included.
	BulkTimeout time.Duration `env:"BULK_TIMEOUT" envDefault:"10m" min:"1ms"`
	// BulkInFlight limits the batches that are applied at once among those too long for memory.
	BulkInFlight int `env:"BULK_IN_FLIGHT" envDefault:"2" min:"1"`
	// SpoolMax limits the bytes of batches in temporary files.
	SpoolMax config.Bytes `env:"SPOOL_MAX" envDefault:"1GiB" min:"1B"`
	// CoalesceInFlight limits the concurrent groups of single-item calls of one kind.
	CoalesceInFlight int `env:"COALESCE_IN_FLIGHT" envDefault:"1" min:"1"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"BULK_TIMEOUT": "time limit of a request with more than 64KiB of items, its upload included; more than " +
			"REQUEST_TIMEOUT",
		"BULK_IN_FLIGHT": "batches of more than 10000 items or 2MiB that are applied at once, each with a connection; " +
			"others, up to an eighth of MAX_IN_FLIGHT, wait their turn for the rest of BULK_TIMEOUT",
		"SPOOL_MAX": "bytes of batches in temporary files (in TMPDIR) while they arrive and are applied; above it 503 " +
			"OVERLOADED; more than MAX_BODY",
		"COALESCE_IN_FLIGHT": "groups of single-item calls of one kind that run at once; a distant database needs more " +
			"than 1",
	}
}

// Defaults replaces defaults of Common: a body is a list of millions of items.
func (Config) Defaults() map[string]string { return map[string]string{"MAX_BODY": "256MiB"} }

// Validate checks relations between variables.
func (c Config) Validate(f *config.Faults) {
	f.Less("REQUEST_TIMEOUT", c.RequestTimeout, "BULK_TIMEOUT", c.BulkTimeout)
	if c.SpoolMax <= c.MaxBody { // spooling may add a line break at the end
		f.Add(fmt.Sprintf("SPOOL_MAX (%s) must be more than MAX_BODY (%s)", c.SpoolMax, c.MaxBody), "SPOOL_MAX", "MAX_BODY")
	}
	if c.BulkInFlight+postgres.GroupConns*c.CoalesceInFlight >= c.DBMaxOpenConns {
		f.Add("BULK_IN_FLIGHT and four times COALESCE_IN_FLIGHT must leave one of DB_MAX_OPEN_CONNS to everything else",
			"BULK_IN_FLIGHT", "COALESCE_IN_FLIGHT", "DB_MAX_OPEN_CONNS")
	}
}
