package sqldb

import (
	"context"
	"database/sql/driver"

	"github.com/rowlock/rowlock/platform/sqldb/pqerr"
)

// Planning the statement of a group costs the server more than running it, so
// each connection keeps the statements that it has seen prepared. That is
// session state, hence only without a pooler in between. The queries are
// constants of the adapters: there are few, and the bound is never met.
const maxPrepared = 64

// keptStatement returns the prepared statement of a query with parameters, and
// prepares it the first time; nil when the query is to be sent as it is.
// Preparing changes nothing, so its failure leaves nothing behind.
//
//nolint:ireturn // the driver's statement is known by its methods alone
func (c *conn) keptStatement(ctx context.Context, query string, args []driver.NamedValue) (driverStmt, error) {
	if c.prepared == nil || len(args) == 0 {
		return nil, nil //nolint:nilnil // a query without a prepared statement is no error
	}
	if kept, ok := c.prepared[query]; ok {
		return kept, nil
	}
	if len(c.prepared) == maxPrepared {
		return nil, nil //nolint:nilnil // as above
	}
	made, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err //nolint:wrapcheck // verdict looks at it
	}
	kept, ok := made.(driverStmt)
	if !ok {
		return nil, made.Close() //nolint:wrapcheck // a COPY: verdict looks at the error
	}
	c.prepared[query] = kept
	return kept, nil
}

// outdatedError is a prepared statement that is of no use any more: a migration
// changed what it returns, or somebody discarded it.
type outdatedError struct{ cause error }

func (e *outdatedError) Error() string { return e.cause.Error() }
func (e *outdatedError) Unwrap() error { return e.cause }

// notePlan retires the connection when an error of a kept statement says that
// it is outdated: the others of the connection are too.
func (c *conn) notePlan(kept driverStmt, err error) error {
	if kept == nil {
		return err
	}
	facts, answered := pqerr.Inspect(err)
	if !answered || facts.SQLState != stateFeatureNotSupported && facts.SQLState != stateInvalidStatementName {
		return err
	}
	c.poisoned = true
	return &outdatedError{err}
}
