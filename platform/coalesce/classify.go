package coalesce

import (
	"fmt"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Classify wraps the error of a group's statement by the pass that it asks for: [ErrLockWait]
// where a lock did not come free in time, [ErrSplit] where the server refused a value or a
// constraint was violated (classes 22, 23 and 54), which one request can cause for all. Any
// other error, and one whose outcome is unknown, is returned unchanged.
func Classify(err error) error {
	e := sqldb.Classify(err, false)
	if e == nil || e.Outcome != sqldb.NotApplied {
		return err
	}
	switch e.Reason {
	case sqldb.LockTimeout:
		return fmt.Errorf("%w: %w", ErrLockWait, err)
	case sqldb.Constraint, sqldb.Data:
		return fmt.Errorf("%w: %w", ErrSplit, err)
	case sqldb.Other, sqldb.Connection, sqldb.Overloaded, sqldb.Serialization, sqldb.Outdated, sqldb.Timeout,
		sqldb.Canceled:
	}
	return err
}
