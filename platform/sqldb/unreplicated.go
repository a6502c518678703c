package sqldb

import (
	"errors"

	"github.com/lib/pq"
)

// A session that commits waits for the synchronous standbys, if the server has any. A
// cancel request ends the wait, not the commit: the server answers success, with a notice.
// Other sessions see the change then, and a failover may lose it, so the success is turned
// into the outcome Unknown. A look-up of such an outcome must write, to wait for the
// standbys itself, and be confirmed by them: what it commits is behind the change. The
// notice is a warning, which client_min_messages=error would keep back.

// ConfirmSQL is an expression of PostgreSQL for a query whose rows answer for an earlier change. Where the server has
// synchronous standbys it writes a message into the log, once for a statement, so that the query's own commit waits for
// them, and they have all that it has read. It is true where it does.
const ConfirmSQL = `(SELECT pg_logical_emit_message(true, 'rowlock', '')
                      WHERE current_setting('synchronous_standby_names') <> '') IS NOT NULL`

// syncRepWait is the server's function that sends the notice; its text depends on
// lc_messages, and its SQLSTATE is that of others.
const syncRepWait = "SyncRepWaitForLSN"

// citusRelay is the function by which Citus' coordinator passes on a worker's notice, under
// its own name. A warning (01000) of a worker may be that of a wait that was ended.
const (
	citusRelay   = "DefaultCitusNoticeReceiver"
	stateWarning = "01000"
)

// errUnreplicated is the cause of an error of confirm.
var errUnreplicated = errors.New("committed, but the wait for the synchronous standby was cancelled")

// notice receives the notices of the session, in the calls that they arrive in.
func (c *conn) notice(n *pq.Error) {
	if n.Routine == syncRepWait || n.Routine == citusRelay && n.Code == stateWarning {
		c.unreplicated = true
	}
}

// confirm returns an [*Error] with the outcome Unknown when the server has committed, since
// the connection left the pool, a change that a synchronous standby may lack.
func (c *conn) confirm() error {
	if !c.unreplicated {
		return nil
	}
	return &Error{Outcome: Unknown, Reason: Timeout, err: errUnreplicated}
}
