// Mutant of platform/sqldb/pooled.go: no binary_parameters behind a pooler.

package sqldb

import "github.com/lib/pq"

// checkPooled has each statement sent in two round trips, and another client's can come between.
func checkPooled(cfg *pq.Config) error {
	cfg.BinaryParameters = false
	return nil
}
