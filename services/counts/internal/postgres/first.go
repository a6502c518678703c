package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The refusals as the table of keys stores them.
const (
	refusedNotFound = "not_found"
	refusedOverflow = "overflow"
)

// storedSQL returns the first answers to requests with keys: what the journal has from the request's place on. A
// caller's own row comes first, then one that was taken without a caller; without a caller it is anyone's.
const storedSQL = `/* SELECT counts.idempotency_keys */
SELECT a.n, k.fingerprint, k.group_id, k.refusal, coalesce(k.refused_at, 0) AS refused_at,
       j.results[k.position + 1 : k.position + a.steps] AS starts
  FROM unnest($1::text[], $2::text[], $3::int[]) WITH ORDINALITY AS a (caller, key, steps, n)
 CROSS JOIN LATERAL (
     SELECT k.fingerprint, k.group_id, k.position, k.refusal, k.refused_at
       FROM counts.idempotency_keys k
      WHERE k.caller IN (a.caller, '') AND k.key = a.key AND k.expires_at > clock_timestamp()
        AND (k.caller = a.caller OR k.owner IN (a.caller, ''))
      ORDER BY k.caller DESC
      LIMIT 1
 ) AS k
  LEFT JOIN counts.journal j ON j.id = k.group_id`

// stored is the first answer to a request with a key.
type stored struct {
	N           int       `db:"n"`
	Fingerprint []byte    `db:"fingerprint"`
	GroupID     uuid.UUID `db:"group_id"`
	Refusal     *string   `db:"refusal"`
	RefusedAt   int       `db:"refused_at"`
	Starts      nullInts  `db:"starts"`
}

// conflicts reports whether the key was used for another request.
func (f *stored) conflicts(k counting.Key) bool {
	return !bytes.Equal(f.Fingerprint, k.Fingerprint[:])
}

// refusal returns the error that the first request got, or nil.
func (f *stored) refusal() error {
	switch {
	case f.Refusal == nil:
		return nil
	case *f.Refusal == refusedNotFound:
		return counting.ErrNotFound
	case *f.Refusal == refusedOverflow:
		return counting.ErrOverflow
	}
	return fmt.Errorf("counts: a key is stored with the refusal %q", *f.Refusal)
}

// complete reports whether the answer is there: the journal keeps it for longer than the key.
func (f *stored) complete(steps int) bool {
	if f.Refusal != nil {
		return true
	}
	for _, s := range f.Starts {
		if !s.valid {
			return false
		}
	}
	return len(f.Starts) == steps
}

// starts returns the values before each step of the request, as its first answer had them.
func (f *stored) starts() []int64 {
	starts := make([]int64, len(f.Starts))
	for i, s := range f.Starts {
		starts[i] = s.value
	}
	return starts
}

// lookUp reads the first answers to requests whose keys are taken, each known by its place; items are what they change
// first. It is a statement after the one that found them taken, whose snapshot may be older than they.
func (s *Store) lookUp(
	ctx context.Context, items []string, keys []counting.Key, steps []int64,
) (map[int]*stored, error) {
	callers, values := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		callers[i], values[i] = k.Caller, k.Value
	}

	var rows []stored
	var err error
	if s.onCitus() {
		err = s.db.SelectUnqueued(ctx, &rows, storedOnShardSQL, pq.StringArray(items), pq.StringArray(callers),
			pq.StringArray(values))
	} else {
		err = s.db.SelectUnqueued(ctx, &rows, storedSQL, pq.StringArray(callers), pq.StringArray(values),
			pq.Int64Array(steps))
	}
	if err != nil {
		return nil, err
	}

	found := make(map[int]*stored, len(rows))
	for i := range rows {
		found[rows[i].N-1] = &rows[i]
	}
	return found, nil
}
