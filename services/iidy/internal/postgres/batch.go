package postgres

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

// Items are sent as one text, separated by line breaks, which no item contains: the server splits that in half the time
// that it takes to read an array.
//
// Rows are locked in byte order by an ORDER BY below the INSERT, below FOR UPDATE, or below the LATERAL that contains
// FOR UPDATE. Sorted parameters alone are not enough: the planner chooses the order in which a plain UPDATE or DELETE
// locks, and two of them deadlock.
//
// No plan depends on the estimated number of items or rows. LATERAL looks each item up by the key; a sub-select inside
// IS TRUE is hashed and never joined; held rows are changed by their ctid, or looked up with fewSQL, which makes the
// planner expect a single row. Otherwise the planner expects one row in a list that was just filled, and joins it with
// a thousand items by a nested loop over both.

// oneMore is attempts + 1, at most the largest bigint.
const oneMore = `least(l.attempts, 9223372036854775806) + 1`

// The statements of a batch. $1 is the list, $2 the claim (empty for none), and $3 the items, each once, unless they
// are staged. Adds have no claim.
const (
	// A temporary table holds a batch of any length. The transaction drops it at its end: behind a transaction pooler
	// other clients get the same session.
	createStagedSQL = `CREATE TEMPORARY TABLE staged (item text COLLATE "C" NOT NULL) ON COMMIT DROP`
	fillStagedSQL   = `INSERT INTO pg_temp.staged (item) SELECT i FROM string_to_table($1, E'\n') AS i`

	addSentSQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, s.item
  FROM string_to_table($2, E'\n') AS s (item)`

	addStagedSQL = `
INSERT INTO iidy.lists (list, item)
SELECT $1, s.item
  FROM pg_temp.staged AS s`

	inOrderSQL = `
 ORDER BY s.item COLLATE "C"`

	unlessThereSQL = `
ON CONFLICT (list, item) DO NOTHING`

	// heldSentSQL locks the items that are in the list. The items of a page or a claim are neighbours in the key. If the
	// range from the first item to the last has at most a quarter more rows than the batch has items, the statement reads
	// the whole range: 4.3 ms instead of 7.5 for a thousand items (decision 0006). dense tests that and reads no further;
	// its limits are nested for the same reason as in a page. Fewer than 100 items are always looked up one by one: dense
	// does not count deleted rows that are not yet vacuumed, but the range would read them. One of near and far is empty.
	heldSentSQL = `
WITH sent AS MATERIALIZED (
    SELECT s.item COLLATE "C" AS item FROM string_to_table($3, E'\n') AS s (item)
), span AS MATERIALIZED (
    SELECT min(item) AS first, max(item) AS last, count(*) AS n FROM sent
), dense AS MATERIALIZED (
    SELECT (SELECT n >= 100 FROM span) AND NOT EXISTS (
           SELECT FROM (SELECT FROM (
                  SELECT FROM (
                         SELECT FROM iidy.lists
                          WHERE list = $1 AND item >= (SELECT first FROM span) AND item <= (SELECT last FROM span)
                          ORDER BY item
                          LIMIT (SELECT n + n / 4 + 1 FROM span)) AS l
                   LIMIT (SELECT n + n / 4 + 1 FROM span)) AS l
                  OFFSET (SELECT n + n / 4 FROM span) LIMIT 1) AS beyond) AS yes
), near AS MATERIALIZED (
    SELECT l.ctid AS place, l.item
      FROM iidy.lists l
     WHERE (SELECT yes FROM dense)
       AND l.list = $1 AND l.item >= (SELECT first FROM span) AND l.item <= (SELECT last FROM span)
       AND (l.item IN (SELECT item FROM sent)) IS TRUE
       AND ` + claimedSQL + `
     ORDER BY l.item
       FOR UPDATE
), far AS MATERIALIZED (
    SELECT l.place, l.item
      FROM (SELECT item FROM sent WHERE NOT (SELECT yes FROM dense) ORDER BY 1) AS a
     CROSS JOIN LATERAL (` + lookupSQL + `) AS l
), held AS MATERIALIZED (
    SELECT place, item FROM near UNION ALL SELECT place, item FROM far
)` + clockSQL

	// heldStagedSQL locks staged items one by one: their number is not known.
	heldStagedSQL = `
WITH held AS MATERIALIZED (
    SELECT l.list, l.item
      FROM (SELECT DISTINCT s.item FROM pg_temp.staged AS s ORDER BY 1) AS a
     CROSS JOIN LATERAL (` + lookupSQL + `) AS l
)` + clockSQL

	lookupSQL = `
           SELECT l.ctid AS place, l.list, l.item
             FROM iidy.lists l
            WHERE l.list = $1 AND l.item = a.item
              AND ` + claimedSQL + `
              FOR UPDATE`

	incrementHeldSQL = `, changed AS (
    UPDATE iidy.lists l
       SET attempts = ` + oneMore + `
      FROM `

	deleteHeldSQL = `, changed AS (
    DELETE FROM iidy.lists l
     USING `

	// placesSQL finds held rows at the ctid that they had when the statement began. If another transaction has moved a row
	// while the statement waited for its lock, movedSQL returns its item.
	placesSQL = `clock k
     WHERE l.ctid = ANY (ARRAY(SELECT place FROM held))
       AND ` + stillClaimedSQL + `
       AND `

	movedSQL = `
    RETURNING l.item
), counts AS (
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM changed) AS done
)
SELECT done,
       CASE WHEN held > done THEN (
           SELECT string_agg(item, E'\n') FROM (SELECT item FROM held EXCEPT SELECT item FROM changed) AS m
       ) END AS moved
  FROM counts`

	// keysSQL looks held rows up by the key, wherever they have moved.
	keysSQL = fewHeldSQL + `, clock k` + theseSQL + stillClaimedSQL + `
       AND `

	countSQL = `
    RETURNING 1
)
SELECT count(*) FROM changed`
)

// changeHeldSQL returns the part of an increment or a delete that begins to change rows.
func changeHeldSQL(change attempt.Change) string {
	if change == attempt.Delete {
		return deleteHeldSQL
	}
	return incrementHeldSQL
}

// batchSQL returns the statement of an increment or a delete of a batch. It returns the number of changed items, and
// the items that have moved.
func batchSQL(change attempt.Change, only condition) string {
	return heldSentSQL + changeHeldSQL(change) + placesSQL + only(ofList) + movedSQL
}

// stagedSQL returns the statement of an increment or a delete of a staged batch. It returns the number of changed
// items.
func stagedSQL(change attempt.Change, only condition) string {
	return heldStagedSQL + changeHeldSQL(change) + keysSQL + only(ofList) + countSQL
}

// ApplyBatch implements attempt.Repository.
func (s *Store) ApplyBatch(
	ctx context.Context, change attempt.Change, list attempt.List, items attempt.Batch, claim attempt.Claim,
) (n int64, err error) {
	s.metrics.Batch(change, items.Len())
	if change == attempt.Add {
		n, err = s.addBatch(ctx, list, items)
	} else {
		n, err = s.runBatch(ctx, list, items, func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error) {
			return changeSent(ctx, tx, s.text.batch[change], list, claim, lines)
		})
	}
	if err != nil {
		return 0, err
	}

	s.noteLost(claim, items.Len(), n)
	s.noteChange(change, list, n)
	return n, nil
}

// uniqueViolation is the SQLSTATE for an item that is already in the list.
const uniqueViolation = "23505"

// addRetryAfter is the time after which a batch of a list is again expected to have only new items, once that was
// wrong: the failed INSERT leaves dead rows.
const addRetryAfter = time.Minute

// addBatch adds the items of a batch. An INSERT without ON CONFLICT costs half as much, so it comes first for a list
// whose last batch had only new items. If an item is in the list after all, that statement fails as a whole, and one
// with ON CONFLICT follows.
func (s *Store) addBatch(ctx context.Context, list attempt.List, items attempt.Batch) (int64, error) {
	begin, hinted := s.allNew.get(string(list))
	if hinted && !s.text.distributed && !time.Now().Before(begin) {
		n, err := s.runBatch(ctx, list, items, func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error) {
			return s.text.add(ctx, tx, list, lines, true)
		})
		if sqldb.SQLState(err) != uniqueViolation {
			return n, err
		}
		s.allNew.put(string(list), time.Now().Add(addRetryAfter))
	}

	n, err := s.runBatch(ctx, list, items, func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error) {
		return s.text.add(ctx, tx, list, lines, false)
	})
	if err == nil && !hinted && n == int64(items.Len()) {
		s.allNew.put(string(list), time.Now())
	}
	return n, err
}

// runBatch calls apply with the items of a batch, each once, one a line. A spooled batch is loaded once it has a
// connection: it is not in memory while it waits for one, or for a lock.
func (s *Store) runBatch(
	ctx context.Context, list attempt.List, items attempt.Batch,
	apply func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error),
) (int64, error) {
	return inTurn(ctx, s.queue, list, items.Spooled(), func(ctx context.Context, tx *sqlx.Tx) (int64, error) {
		loaded, err := items.Load()
		if err != nil {
			return 0, err
		}
		return apply(ctx, tx, loaded.Distinct())
	})
}

// maxPasses limits how often a statement runs for rows that moved. A second pass finds all that moved during the first;
// more are needed only for rows that were added since.
const maxPasses = 5

// changeSent runs a statement of batchSQL, and runs it again for the items that moved while it waited for their locks.
// Their rows are locked by then, so a further pass waits for no lock.
func changeSent(
	ctx context.Context, tx *sqlx.Tx, query string, list attempt.List, claim attempt.Claim, lines string,
) (total int64, err error) {
	for range maxPasses {
		var row struct {
			Done  int64          `db:"done"`
			Moved sql.NullString `db:"moved"`
		}
		if err := tx.GetContext(ctx, &row, query, string(list), string(claim), lines); err != nil {
			return 0, err
		}

		total += row.Done
		if !row.Moved.Valid {
			return total, nil
		}
		lines = row.Moved.String
	}
	return 0, attempt.ErrConflict
}

// ApplyStaged implements attempt.Repository. The items go part by part into a temporary table, and one statement
// applies them in order, although the replica never holds all of them. The batch has arrived, so it waits for its turn
// (BulkInFlight) until its time is over; after a deadlock it is staged again.
func (s *Store) ApplyStaged(
	ctx context.Context, change attempt.Change, list attempt.List,
	parts iter.Seq2[*attempt.Items, error], claim attempt.Claim,
) (int64, error) {
	sent := 0
	n, err := inLongTurn(ctx, s.queue, list, s.queue.options.BulkTimeout, func(
		ctx context.Context, tx *sqlx.Tx,
	) (n int64, err error) {
		sent, err = stage(ctx, tx, parts)
		if err != nil {
			return 0, err
		}
		return s.text.changeStaged(ctx, tx, change, list, claim)
	})
	if err != nil {
		return 0, err
	}

	s.metrics.Batch(change, sent)
	s.noteLost(claim, sent, n)
	s.noteChange(change, list, n)
	return n, nil
}

// stage fills the temporary table and returns the number of items.
func stage(ctx context.Context, tx *sqlx.Tx, parts iter.Seq2[*attempt.Items, error]) (total int, err error) {
	if _, err := tx.ExecContext(ctx, createStagedSQL); err != nil {
		return 0, err
	}
	for items, err := range parts {
		if err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, fillStagedSQL, items.Lines()); err != nil {
			return 0, err
		}
		total += items.Len()
	}
	return total, nil
}

// execute runs a statement and returns the number of rows that it changed.
func execute(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// count runs a statement that returns the number of rows that it changed.
func count(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (n int64, err error) {
	err = tx.GetContext(ctx, &n, query, args...)
	return n, err
}

// noteLost counts a change whose claim no longer holds all the items that it names. It also counts a batch that repeats
// an item, and a repeated delete.
func (s *Store) noteLost(claim attempt.Claim, named int, changed int64) {
	if claim != "" && changed < int64(named) {
		s.contention.Conflict(contention.Lost)
	}
}

// noteChange counts the items of a change.
func (s *Store) noteChange(change attempt.Change, list attempt.List, n int64) {
	s.metrics.Changed(metrics.KindOf(change), n)
	if change == attempt.Add && n > 0 {
		s.freeFrom.forget(string(list))
	}
}
