package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// xact identifies a transaction and the run of the server that it belongs to.
type xact struct {
	ID      sql.NullString `db:"id"`      // pg_current_xact_id, null when nothing was written
	Started int64          `db:"started"` // pg_postmaster_start_time in microseconds
	// Workers are the process ids of the server's own workers. After the crash of
	// one backend the postmaster runs on with its start time unchanged, but all its
	// workers are new; what was not yet on disk is lost, and its transaction ids are
	// assigned again. pg_xact_status would then report another transaction's status.
	Workers pq.Int64Array `db:"workers"`
}

type xactStatus string

// The statuses of a transaction, and the values of the label result.
const (
	xactCommitted xactStatus = "committed"
	xactAborted   xactStatus = "aborted"
	xactUnknown   xactStatus = "unknown"
)

const (
	// The leading comments name the spans.
	currentXact = `/* SELECT pg_current_xact_id */
SELECT pg_current_xact_id_if_assigned()::text AS id,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started,
       ARRAY(SELECT pid FROM pg_stat_activity WHERE datid IS NULL AND usesysid IS NULL) AS workers`

	statusOfXact = `/* SELECT pg_xact_status */
SELECT coalesce(pg_xact_status($1::xid8), 'unknown') AS status,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint = $2
       AND EXISTS (SELECT FROM pg_stat_activity WHERE datid IS NULL AND usesysid IS NULL AND pid = ANY($3)) AS same`

	resolveWithin   = 5 * time.Second
	resolveInterval = 20 * time.Millisecond
	inProgress      = "in progress"
)

// readXact returns the transaction's identity; it runs before COMMIT.
func readXact(ctx context.Context, tx *sqlx.Tx) (*xact, error) {
	var id xact
	if err := tx.GetContext(ctx, &id, currentXact); err != nil {
		return nil, fmt.Errorf("read the transaction's id: %w", err)
	}
	return &id, nil
}

// lookUp asks the server for the status of a transaction, on another connection and
// for five seconds at most, whether or not the caller still waits.
func (db *DB) lookUp(ctx context.Context, id *xact) xactStatus {
	result := xactAborted // a transaction that wrote nothing has nothing to apply
	if id.ID.Valid {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
		defer cancel()
		result = db.poll(bounded, id)
	}
	db.metrics.resolved.WithLabelValues(string(result)).Inc()
	return result
}

// resolveOnce is OnceResolved after the answer was lost; lost is its error.
func (db *DB) resolveOnce(ctx context.Context, lost error, ask func(context.Context) (bool, error)) error {
	for {
		applied, err := ask(ctx)
		switch {
		case err == nil && applied:
			db.metrics.resolved.WithLabelValues(string(xactCommitted)).Inc()
			return nil
		case err == nil:
			db.metrics.resolved.WithLabelValues(string(xactAborted)).Inc()
			return notApplied(lost)
		case !passes(err) || !pause(ctx, resolveInterval):
			db.metrics.resolved.WithLabelValues(string(xactUnknown)).Inc()
			return lost
		}
	}
}

// passes reports whether the same statement may succeed later.
func passes(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason != Other && e.Reason != Constraint && e.Reason != Data
}

// notApplied returns err with the outcome NotApplied.
func notApplied(err error) error {
	e := *Classify(err, true)
	e.Outcome = NotApplied
	return &e
}

// poll repeats the question until the transaction is no longer in progress.
func (db *DB) poll(ctx context.Context, id *xact) xactStatus {
	for {
		var answer struct {
			Status string `db:"status"`
			Same   bool   `db:"same"`
		}
		err := db.GetUnqueued(ctx, &answer, statusOfXact, id.ID.String, id.Started, id.Workers)
		switch {
		case err != nil && SQLState(err) != "":
			// The server does not know the id: it is in the future (22023), or too
			// old. An unreachable server may come back.
			if e := Classify(err, false); e.Reason != Connection && e.Reason != Overloaded {
				return xactUnknown
			}
		case err == nil && !answer.Same:
			return xactUnknown
		case err == nil && answer.Status != inProgress:
			if s := xactStatus(answer.Status); s == xactCommitted || s == xactAborted {
				return s
			}
			return xactUnknown
		}
		if !pause(ctx, resolveInterval) {
			return xactUnknown
		}
	}
}
