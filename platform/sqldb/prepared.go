package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/lib/pq"
)

// Planning a group's statement costs the server more than running it, so each
// connection keeps its statements prepared. Prepared statements are session state,
// hence only without a pooler. The queries are constants of the adapters: there are
// few, and the bound is never reached.
const maxPrepared = 64

// driverStmt lists what is used of the driver's prepared statement.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// preparedStatement returns the prepared statement of a query with parameters,
// preparing it the first time, or nil when the query is to be sent as it is.
// Preparing changes nothing, so a failure leaves nothing behind.
func (c *conn) preparedStatement(ctx context.Context, query string, args []driver.NamedValue) (driverStmt, error) {
	if c.prepared == nil || len(args) == 0 {
		return nil, nil
	}
	if known, ok := c.prepared[query]; ok {
		return known, nil
	}
	if len(c.prepared) == maxPrepared {
		return nil, nil
	}
	made, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	prepared, _ := made.(driverStmt) // all but a COPY, which has no parameters
	c.prepared[query] = prepared
	return prepared, nil
}

// planCheck is the server's function that refuses an outdated plan.
const planCheck = "RevalidateCachedQuery"

// retireOutdated marks the connection broken when a prepared statement's error says
// that it cannot be used any more, since the connection's other ones cannot either: a
// migration changed what it returns, or another program discarded it. It returns err or a
// *meantError.
func (c *conn) retireOutdated(err error) error {
	r, _ := answered(err)
	switch r.sqlState {
	case stateInvalidStatementName:
	case stateFeatureNotSupported: // also what Citus says of a statement that it cannot distribute
		if e, ok := errors.AsType[*pq.Error](err); !ok || e.Routine != planCheck {
			return err
		}
	default:
		return err
	}
	c.broken = true
	return &meantError{err, Outdated}
}
