package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// xact identifies a transaction and the run of the server that it belongs to.
type xact struct {
	ID      sql.NullString `db:"id"`      // pg_current_xact_id, null when nothing was written
	Started int64          `db:"started"` // pg_postmaster_start_time in microseconds
	// Workers are the process ids of the server's own workers. After the crash
	// of one backend the postmaster lives on with its start time unchanged, but
	// all its workers are new ones; what was not yet on disk is lost, and its
	// transaction ids are given out again. pg_xact_status would then report the
	// fate of another transaction.
	Workers pq.Int64Array `db:"workers"`
}

type xactStatus string

// What became of a transaction; the values of the label result.
const (
	xactCommitted xactStatus = "committed"
	xactAborted   xactStatus = "aborted"
	xactUnknown   xactStatus = "unknown"
)

const (
	// Their comments are what spans call them.
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

// readXact notes the transaction's identity before COMMIT.
func readXact(ctx context.Context, tx *sqlx.Tx) (*xact, error) {
	var id xact
	if err := tx.GetContext(ctx, &id, currentXact); err != nil {
		return nil, fmt.Errorf("note the transaction's id: %w", err)
	}
	return &id, nil
}

// resolve asks the server what became of a transaction, on another connection
// and for five seconds at most, whether or not the caller still waits.
func (db *DB) resolve(ctx context.Context, id *xact) xactStatus {
	result := xactAborted // a transaction that wrote nothing has nothing to apply
	if id.ID.Valid {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
		defer cancel()
		result = db.poll(bounded, id)
	}
	db.metrics.resolved.WithLabelValues(string(result)).Inc()
	return result
}

func (db *DB) poll(ctx context.Context, id *xact) xactStatus {
	for {
		var answer struct {
			Status string `db:"status"`
			Same   bool   `db:"same"`
		}
		err := db.GetContext(ctx, &answer, statusOfXact, id.ID.String, id.Started, id.Workers)
		switch {
		case err != nil && SQLState(err) != "":
			// The server does not know the id: it is in its future (22023), or too
			// old. An unreachable server may yet come back.
			if e := Classify(err, false); e.Reason != Connection && e.Reason != Overloaded {
				return xactUnknown
			}
		case err == nil && !answer.Same:
			return xactUnknown
		case err == nil && answer.Status != inProgress:
			return status(answer.Status)
		}
		if !pause(ctx, resolveInterval) {
			return xactUnknown
		}
	}
}

func status(answer string) xactStatus {
	switch s := xactStatus(answer); s {
	case xactCommitted, xactAborted:
		return s
	case xactUnknown:
	}
	return xactUnknown
}
