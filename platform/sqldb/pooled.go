package sqldb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lib/pq"
)

// checkPooled returns an error for settings that fail, some of them silently, behind
// a pooler in transaction mode.
func checkPooled(cfg *pq.Config) error {
	if !cfg.BinaryParameters {
		return errors.New("behind a transaction pooler the database URL must say binary_parameters=yes: " +
			"without it one client can receive the rows of another")
	}

	names := slices.Sorted(maps.Keys(cfg.Runtime))
	if cfg.Options != "" {
		names = append(names, "options")
	}
	if len(names) > 0 {
		return fmt.Errorf(
			"behind a transaction pooler the database URL cannot set %s: leave it out, or use ALTER ROLE ... SET on the server",
			strings.Join(names, ", "))
	}

	if t := cfg.TargetSessionAttrs; t != "" && t != pq.TargetSessionAttrsAny {
		return fmt.Errorf("behind a transaction pooler the database URL cannot say target_session_attrs=%s: "+
			"PgBouncer repeats what a server said when it was a standby; let it connect to the primary's name", t)
	}
	return nil
}
