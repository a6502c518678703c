package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// history holds the history of the server (see sqldb.HistorySQL) that a Store has read last. An acquisition costs no
// read: a history that is older than the lease serves as well. Where the manager
// fences the old primary it does not return once another has taken its place, so when a look-up meets the same one, it
// was the lease's too. When a look-up meets another one, no more is known.
type history struct{ last atomic.Pointer[string] }

// historyWithin bounds the read of a history.
const historyWithin = time.Second

// before returns the history that was read last, and reads it when there is none. It returns "", which no history
// equals, when it cannot be read: the statement that follows meets the same error.
func (h *history) before(ctx context.Context, db *sqldb.DB) string {
	if last := h.last.Load(); last != nil {
		return *last
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	var now string
	const query = `/* SELECT pg_control_system */ SELECT ` + sqldb.HistorySQL
	if err := db.GetUnqueued(ctx, &now, query); err != nil || now == "" {
		return ""
	}
	h.last.Store(&now)
	return now
}

// forget makes the next acquisition read the history anew.
func (h *history) forget() { h.last.Store(nil) }
