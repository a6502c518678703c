package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// xact identifies a transaction and the run of the server that it belongs to.
type xact struct {
	serverRun

	id string // pg_current_xact_id
}

// serverRun identifies a run of the server. A session ends with it.
type serverRun struct {
	Started int64 `db:"started"` // pg_postmaster_start_time in microseconds
	// Workers are the process ids of the server's own workers. After the crash of
	// one backend the postmaster runs on with its start time unchanged, but all its
	// workers are new; what was not yet on disk is lost, and its transaction ids are
	// assigned again. pg_xact_status would then report another transaction's status.
	Workers pq.Int64Array `db:"workers"`
	// History is that of HistorySQL: a promoted standby may lack the transaction, and has
	// assigned its id again.
	History string `db:"history"`
}

// HistorySQL is an expression of PostgreSQL, a text that identifies the history of changes
// that the server continues: the identifier of the cluster, which its standbys share, and
// the timeline, which changes with a promotion and not with a restart. It is empty during
// recovery. Of two servers with the same text the later has every change of the earlier one
// that was on disk, unless two standbys of the same timeline were promoted.
// A role needs the right to execute pg_control_system, which all have by default.
//
// pg_control_checkpoint is no substitute: after a promotion it names the earlier timeline
// until the next checkpoint.
const HistorySQL = `CASE WHEN pg_is_in_recovery() THEN '' ELSE
       (SELECT system_identifier FROM pg_control_system()) || '/' ||
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END`

type xactStatus string

// The statuses of a transaction, and the values of the label result.
const (
	xactCommitted xactStatus = "committed"
	xactAborted   xactStatus = "aborted"
	xactUnknown   xactStatus = "unknown"
)

const (
	// The leading comments name the spans.
	currentRun = `/* SELECT pg_postmaster_start_time */
SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started,
       ARRAY(SELECT pid FROM pg_stat_activity WHERE datid IS NULL AND usesysid IS NULL) AS workers,
       ` + HistorySQL + ` AS history`

	// currentXact follows the transaction's settings, in one message with them.
	currentXact = `SELECT pg_current_xact_id()::text`
	namedXact   = "/* SELECT pg_current_xact_id */ "

	// statusOfXact writes a message into the log before it answers "committed". It is so
	// answered when its own commit is, behind the lost one: after the synchronous standby,
	// if there is one, has both. The lost session may have been terminated while it waited
	// for the standby, and what it has committed can then be seen here alone.
	statusOfXact = `/* SELECT pg_xact_status */
SELECT x.status, CASE WHEN x.same AND x.status = 'committed'
       THEN pg_logical_emit_message(true, 'rowlock', '') IS NOT NULL ELSE x.same END AS same
  FROM (SELECT coalesce(pg_xact_status($1::xid8), 'unknown') AS status,
               (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint = $2
               AND EXISTS (SELECT FROM pg_stat_activity
                            WHERE datid IS NULL AND usesysid IS NULL AND pid = ANY($3))
               AND ` + HistorySQL + ` = $4 AS same
        OFFSET 0) AS x`

	resolveWithin   = 5 * time.Second
	resolveInterval = 20 * time.Millisecond
	inProgress      = "in progress"
)

// beginXact sends the settings of a transaction, which may be empty, and returns its
// identity. The run of the server is read once for each connection: pg_stat_activity costs
// the server as much as a short transaction. Behind a pooler it is read for each
// transaction, which may have another session.
func (db *DB) beginXact(ctx context.Context, tx *sqlx.Tx, guarded *conn, settings string) (*xact, error) {
	run := guarded.run
	if run == nil {
		run = new(serverRun)
		if err := tx.GetContext(ctx, run, currentRun); err != nil {
			return nil, fmt.Errorf("read the run of the server: %w", err)
		}
		if db.settings.Pooler == PoolerNone {
			guarded.run = run
		}
	}
	begun := xact{serverRun: *run}
	if err := tx.GetContext(ctx, &begun.id, namedXact+settings+currentXact); err != nil {
		return nil, fmt.Errorf("read the transaction's id: %w", err)
	}
	return &begun, nil
}

// lookUp asks the server for the status of a transaction, on another connection and
// for five seconds at most, whether or not the caller still waits.
func (db *DB) lookUp(ctx context.Context, lost *xact) xactStatus {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
	defer cancel()
	result := db.poll(bounded, lost)
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
func (db *DB) poll(ctx context.Context, lost *xact) xactStatus {
	for {
		var answer struct {
			Status string `db:"status"`
			Same   bool   `db:"same"`
		}
		err := db.GetUnqueued(ctx, &answer, statusOfXact, lost.id, lost.Started, lost.Workers, lost.History)
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
