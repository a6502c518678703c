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
)

// Items are sent as one text, separated by line breaks, which no item contains: the server splits that in half the time
// that it takes to read an array.
//
// Rows are locked in byte order by an ORDER BY below the INSERT, below FOR UPDATE, or below the LATERAL that contains
// FOR UPDATE. Sorted parameters alone do not suffice: the planner chooses the order in which a plain UPDATE or DELETE
// locks, and two of them deadlock.
//
// Nothing depends on the planner's estimate of the number of items or rows. LATERAL looks each item up by the key; a
// sub-select inside IS TRUE is hashed and never joined; what changes held rows goes by ctid, or looks up what fewSQL
// makes seem a single row. Otherwise the planner takes a list that was just filled for one of a single row, and joins
// it with a thousand items by a nested loop over both.

// oneMore is attempts + 1, bounded by the largest bigint.
const oneMore = `least(l.attempts, 9223372036854775806) + 1`

// The statements of a batch. $1 is the list, $2 the claim, empty for none, and $3 are the items, each once, unless they
// are staged. Adds have no claim.
const (
	// A temporary table holds a batch of any length. It is dropped with its transaction: behind a transaction pooler
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

	// heldSentSQL locks the items that are in the list. Those of a page or a claim are neighbours in the key: when at most
	// a quarter of the rows between the first item and the last are not in the batch, the range is read as a whole, which
	// takes 4.3 ms instead of 7.5 for a thousand items (decision 0006). dense finds that out by reading no further than
	// that; its limits are nested for the same reason as those of a page. Fewer than 100 items are always looked up one by
	// one: deleted rows between them that are not vacuumed yet do not count, but would be read. One of near and far is
	// empty.
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

	// heldStagedSQL locks staged items, whose number is not known, one by one.
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

	// placesSQL finds held rows where they were when the statement began. A row that another transaction has moved while
	// its lock was waited for is not there: movedSQL returns its item.
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

	// keysSQL looks held rows up by the key, wherever they are.
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

// batchSQL returns the statement of an increment or a delete of a batch, which returns how many items it has changed,
// and those that have moved.
func batchSQL(change attempt.Change, only condition) string {
	return heldSentSQL + changeHeldSQL(change) + placesSQL + only(ofList) + movedSQL
}

// stagedSQL returns the statement of an increment or a delete of a staged batch, which returns how many items it has
// changed.
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

// uniqueViolation is the SQLSTATE of an item that the list has already.
const uniqueViolation = "23505"

// addRetryAfter is for how long a list is not expected to have only new items again once that was wrong: a batch was
// inserted and rolled back, which leaves dead rows.
const addRetryAfter = time.Minute

// addBatch adds the items of a batch. An INSERT without ON CONFLICT costs half of one with it, so a list whose last
// batch was all new gets that first; when an item is in the list after all the statement fails as a whole and is made
// again with it.
func (s *Store) addBatch(ctx context.Context, list attempt.List, items attempt.Batch) (int64, error) {
	begin, hinted := s.allNew.get(string(list))
	if hinted && s.text.addNew != nil && !time.Now().Before(begin) {
		n, err := s.runBatch(ctx, list, items, func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error) {
			return s.text.addNew(ctx, tx, list, lines)
		})
		if sqldb.SQLState(err) != uniqueViolation {
			return n, err
		}
		s.allNew.put(string(list), time.Now().Add(addRetryAfter))
	}

	n, err := s.runBatch(ctx, list, items, func(ctx context.Context, tx *sqlx.Tx, lines string) (int64, error) {
		return s.text.add(ctx, tx, list, lines)
	})
	if allNew := n == int64(items.Len()); allNew && err == nil && !hinted {
		s.allNew.put(string(list), time.Now())
	}
	return n, err
}

// runBatch calls apply with the items of a batch, each once, a line each. A spooled batch is loaded when it has a
// connection: while it waits, for that or for a lock, it is not in memory.
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

// maxPasses bounds how often a statement is run for rows that moved. One more pass is enough for those of the first;
// further ones are for rows that were added since.
const maxPasses = 5

// changeSent runs a statement of batchSQL, and again for the items that moved while their locks were waited for: their
// rows are locked by then, so a further pass waits for no lock.
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

// ApplyStaged implements attempt.Repository. The items go part by part into a temporary table and are applied in one
// order, although the replica never holds all at once, and all or nothing. The batch has arrived: it waits its turn
// among those of BulkInFlight for as long as its time lasts, and after a deadlock it is staged again.
func (s *Store) ApplyStaged(
	ctx context.Context, change attempt.Change, list attempt.List,
	parts iter.Seq2[*attempt.Items, error], claim attempt.Claim,
) (int64, error) {
	sent := 0
	n, err := inLongTurn(ctx, s.queue, list, s.queue.options.BulkTimeout, func(
		ctx context.Context, tx *sqlx.Tx,
	) (n int64, err error) {
		if sent, err = stage(ctx, tx, parts); err != nil {
			return 0, err
		}
		return s.text.staged(ctx, tx, change, list, claim)
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

// noteLost counts a change whose claim no longer holds all the items that it names. A batch that repeats an item, or a
// delete that is sent again, is counted as well.
func (s *Store) noteLost(claim attempt.Claim, named int, changed int64) {
	if claim != "" && changed < int64(named) {
		s.contention.Conflict(contention.Lost)
	}
}

// noteChange counts a change that was made.
func (s *Store) noteChange(change attempt.Change, list attempt.List, n int64) {
	s.metrics.Changed(change, n)
	if change == attempt.Add && n > 0 {
		s.freeFrom.forget(string(list))
	}
}
