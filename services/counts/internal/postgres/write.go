package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// createSQL is a separate statement, because Citus sends no INSERT of a CTE to a worker.
const createSQL = `
INSERT INTO counts.count_values (item_id, current_value, last_updated_at)
SELECT c.item_id, c.value, $3
  FROM unnest($1::text[], $2::bigint[]) AS c (item_id, value)
 WHERE (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
 ORDER BY c.item_id COLLATE "C"
    ON CONFLICT (item_id) DO NOTHING`

// create creates the counts that were decided to be created. It waits for a count that another session is creating, and
// returns ErrSplit when that was quicker.
func create(
	ctx context.Context, session groupcommit.Session, writes []counting.Write, now time.Time, wait time.Duration,
) error {
	var ids pq.StringArray
	var values pq.Int64Array
	for _, w := range writes {
		if w.Kind == counting.Insert {
			ids, values = append(ids, string(w.ItemID)), append(values, w.Value)
		}
	}
	if len(ids) == 0 {
		return nil
	}

	result, err := session.ExecContext(ctx, createSQL, ids, values, now, sqldb.Milliseconds(wait))
	if err != nil {
		return err
	}
	created, err := result.RowsAffected()
	if err == nil && created != int64(len(ids)) {
		return groupcommit.ErrSplit
	}
	return err
}

// writeSQL returns the last statement of a transaction: it changes counts that are locked, takes keys and writes the
// slot, in one round trip, and counts the rows of each. keys is takeKeysSQL, or empty; only adds the
// shard's condition. The CASE has no operand, because Citus passes CASE w.kind WHEN 'add' on to a worker as
// CASE w.kind WHEN (w.kind = 'add').
func writeSQL(keys string, only condition) string {
	taken := "SELECT 0 AS n"
	if keys != "" {
		keys = ", taken AS (" + keys + "\n    RETURNING 1\n)"
		taken = "SELECT count(*) AS n FROM taken"
	}

	return `/* UPDATE counts.count_values UPDATE counts.slots */
WITH changed AS (
    UPDATE counts.count_values v
       SET current_value = CASE WHEN w.kind = 'add' THEN v.current_value + w.n ELSE w.n END, last_updated_at = $4
      FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w (item_id, kind, n)
     WHERE v.item_id = w.item_id
       AND w.kind <> 'remove'` + only("v.item_id = ANY ($1)") + `
    RETURNING 1
), removed AS (
    DELETE FROM counts.count_values v
     USING unnest($1::text[], $2::text[]) AS w (item_id, kind)
     WHERE v.item_id = w.item_id
       AND w.kind = 'remove'` + only("v.item_id = ANY ($1)") + `
    RETURNING 1
), stored AS (
    UPDATE counts.slots
       SET attempt = $7, answers = $8, used_at = statement_timestamp()
     WHERE place = $5
       AND id = $6
       AND attempt = $7 - 1
    RETURNING 1
)` + keys + `
SELECT c.n + r.n AS written, k.n AS taken, s.n AS stored
  FROM (SELECT count(*) AS n FROM changed) c,
       (SELECT count(*) AS n FROM removed) r,
       (` + taken + `) k,
       (SELECT count(*) AS n FROM stored) s`
}

// takeKeysSQL takes keys in byte order. It takes over expired ones.
const takeKeysSQL = `
    INSERT INTO counts.idempotency_keys AS k (caller, key, fingerprint, answer, expires_at)
    SELECT a.caller, a.key, a.fingerprint, a.answer, statement_timestamp() + $13 * interval '1 microsecond'
      FROM unnest($9::text[], $10::text[], $11::bytea[], $12::json[]) AS a (caller, key, fingerprint, answer)
     WHERE (SELECT set_config('lock_timeout', $14, true)) IS NOT NULL
     ORDER BY a.caller COLLATE "C", a.key COLLATE "C"
        ON CONFLICT (caller, key) DO UPDATE
       SET fingerprint = excluded.fingerprint, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE k.expires_at <= clock_timestamp()`

// write writes the decisions with the answers, except for counts that are created. It waits for a key that another
// session is taking, and returns ErrSplit if the other session keeps it.
func (s *Store) write(
	ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, d counting.Decision,
	answers []*counting.Answer, now time.Time, wait time.Duration,
) error {
	ids, kinds := make(pq.StringArray, 0, len(d.Writes)), make(pq.StringArray, 0, len(d.Writes))
	values := make(pq.Int64Array, 0, len(d.Writes))
	for _, w := range d.Writes {
		kind, value := "set", w.Value
		switch w.Kind {
		case counting.Insert:
			continue
		case counting.AddTo:
			kind, value = "add", w.By
		case counting.Remove:
			kind = "remove"
		case counting.Replace:
		}
		ids, kinds, values = append(ids, string(w.ItemID)), append(kinds, kind), append(values, value)
	}
	if len(ids) == 0 && len(d.Keys) == 0 {
		return a.Store(ctx, session, answers)
	}

	if err := a.Encode(answers); err != nil {
		return err
	}
	args := []any{ids, kinds, values, now, a.Place, a.Slot, a.Number, a.Answers}
	if !s.distributed {
		keys, err := s.keyArgs(d.Keys)
		if err != nil {
			return err
		}
		args = append(append(args, keys...), sqldb.Milliseconds(wait))
	}
	var rows struct{ Written, Taken, Stored int }
	if err := session.GetContext(ctx, &rows, s.texts.write, args...); err != nil {
		return err
	}

	switch {
	case rows.Stored != 1:
		return groupcommit.ErrNoSlot
	case rows.Written != len(ids), rows.Taken != len(d.Keys):
		return groupcommit.ErrSplit
	}
	return nil
}

// keyArgs returns the parameters of takeKeysSQL but for the wait.
func (s *Store) keyArgs(taken map[counting.KeyID]counting.Taken) ([]any, error) {
	var callers, keys, answers pq.StringArray
	var fingerprints pq.ByteaArray
	for _, id := range slices.SortedFunc(maps.Keys(taken), compareKeys) {
		t := taken[id]
		answer, err := json.Marshal(t.Answer)
		if err != nil {
			return nil, fmt.Errorf("counts: the answer of a key: %w", err)
		}
		callers, keys, answers = append(callers, id.Caller), append(keys, id.Value), append(answers, string(answer))
		fingerprints = append(fingerprints, t.Fingerprint[:])
	}
	return []any{callers, keys, fingerprints, answers, s.keyTTL.Microseconds()}, nil
}

func compareKeys(a, b counting.KeyID) int {
	return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Value, b.Value))
}
