package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// kind is what a change does to a claim.
type kind string

const (
	takeOver kind = "take over" // that ran out
	giveBack kind = "give back"
	drop     kind = "drop"
)

// change asks for a change of the claim whose id is fence.
type change struct {
	kind  kind
	fence string
	held  payment.Held // whose claim it is afterwards
	lease time.Duration
	ttl   time.Duration
}

// GiveBack implements payment.Repository.
func (s *Store) GiveBack(ctx context.Context, h payment.Held) error {
	_, err := do(ctx, s.changes, change{kind: giveBack, fence: string(h.ClaimID), held: h})
	return err
}

// Drop implements payment.Repository.
func (s *Store) Drop(ctx context.Context, h payment.Held) error {
	_, err := do(ctx, s.changes, change{kind: drop, fence: string(h.ClaimID), held: h})
	return err
}

// changesSQL changes claims whose fence holds, each row for itself. A claim that is given back has run out. A row that
// is there and was not locked is another transaction's: it was skipped.
func changesSQL(skipLocked bool) string {
	if skipLocked {
		return changesHead + " SKIP LOCKED" + changesTail
	}
	return changesHead + changesTail
}

const (
	changesHead = `
WITH c AS MATERIALIZED (
    SELECT c.key, c.kind, c.fence, c.claim_id, c.lease, c.ttl, c.n
      FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[])
           WITH ORDINALITY AS c (key, kind, fence, claim_id, lease, ttl, n)
), held AS MATERIALIZED (
    SELECT c.n
      FROM c JOIN payments.idempotency_records r ON r.key = c.key
     WHERE (SELECT set_config('lock_timeout', $7, true)) IS NOT NULL
     ORDER BY r.key
       FOR UPDATE OF r`
	changesTail = `
), changed AS (
    UPDATE payments.idempotency_records r
       SET claim_id = c.claim_id, claimed_until = clock_timestamp() + c.lease * interval '1 microsecond',
           expires_at = CASE c.kind WHEN 'take over' THEN clock_timestamp() + c.ttl * interval '1 microsecond'
                                    ELSE r.expires_at END
      FROM c JOIN held h ON h.n = c.n
     WHERE r.key = c.key AND r.status = 'PROCESSING'
       AND CASE c.kind WHEN 'take over' THEN r.claim_id = c.claim_id
                                             OR r.claim_id = c.fence AND r.claimed_until <= clock_timestamp()
                       WHEN 'give back' THEN r.claim_id = c.fence END
    RETURNING c.n, r.processor_key, clock_timestamp() AS now
), dropped AS (
    DELETE FROM payments.idempotency_records r
     USING c JOIN held h ON h.n = c.n
     WHERE r.key = c.key AND r.status = 'PROCESSING' AND c.kind = 'drop' AND r.claim_id = c.fence
)
SELECT c.n, changed.processor_key, changed.now,
       h.n IS NULL AND EXISTS (SELECT FROM payments.idempotency_records r WHERE r.key = c.key) AS locked
  FROM c
  LEFT JOIN held h ON h.n = c.n
  LEFT JOIN changed ON changed.n = c.n`
)

func (s *Store) runChanges(ctx context.Context, p coalesce.Pass, group []change) ([]coalesce.Answer[state], error) {
	n := len(group)
	keys, kinds, fences, ids, leases, ttls := texts(n), texts(n), texts(n), texts(n), numbers(n), numbers(n)
	for i, c := range group {
		keys[i], kinds[i], fences[i], ids[i] = string(c.held.Key), string(c.kind), c.fence, string(c.held.ClaimID)
		leases[i], ttls[i] = c.lease.Microseconds(), c.ttl.Microseconds()
	}
	var rows []struct {
		N            int        `db:"n"`
		ProcessorKey *string    `db:"processor_key"`
		Now          *time.Time `db:"now"`
		Locked       bool       `db:"locked"`
	}
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		rows = rows[:0]
		return conn.SelectContext(ctx, &rows, changesSQL(p.SkipLocked), keys, kinds, fences, ids, leases, ttls,
			sqldb.Milliseconds(p.Wait))
	})
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	answers := make([]coalesce.Answer[state], n)
	for _, row := range rows {
		a, c := &answers[row.N-1], group[row.N-1]
		a.Locked = row.Locked
		if row.Now != nil && row.ProcessorKey != nil {
			h := c.held
			h.ProcessorKey, h.Now, h.TakenOver = *row.ProcessorKey, row.Now.UTC(), true
			a.Value.held = &h
		}
	}
	return answers, nil
}
