package postgres

import (
	"context"
	"database/sql"
	"time"

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

// changesSQL changes claims whose fence holds, each row for itself. The fence is read from the locked row, and so after
// the wait for it. A claim that is given back has run out. A takeover begins the record's life anew, and with it the
// pauses of overdueSQL.
func changesSQL(skipLocked bool) string {
	if skipLocked {
		return changesHead + " SKIP LOCKED" + changesTail
	}
	return changesHead + changesTail
}

const (
	changesHead = `
WITH held AS MATERIALIZED (
    SELECT c.n, r.key, c.kind, c.claim_id, c.lease, c.ttl, r.processor_key,
           r.status = 'PROCESSING' AND (
               r.claim_id = c.fence AND (c.kind <> 'take over' OR r.claimed_until <= clock_timestamp())
               OR c.kind = 'take over' AND r.claim_id = c.claim_id) AS mine
      FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[])
           WITH ORDINALITY AS c (key, kind, fence, claim_id, lease, ttl, n)
      JOIN payments.idempotency_records r ON r.key = c.key
     WHERE (SELECT set_config('lock_timeout', $7, true)) IS NOT NULL
     ORDER BY r.key
       FOR UPDATE OF r`
	changesTail = `
), changed AS (
    UPDATE payments.idempotency_records r
       SET claim_id = h.claim_id, claimed_until = clock_timestamp() + h.lease * interval '1 microsecond',
           expires_at = CASE h.kind WHEN 'take over' THEN clock_timestamp() + h.ttl * interval '1 microsecond'
                                    ELSE r.expires_at END,
           created_at = CASE h.kind WHEN 'take over' THEN clock_timestamp() ELSE r.created_at END
      FROM held h
     WHERE h.mine AND h.kind <> 'drop' AND r.key = h.key
    RETURNING h.n
), dropped AS (
    DELETE FROM payments.idempotency_records r USING held h WHERE h.mine AND h.kind = 'drop' AND r.key = h.key
)
SELECT h.n, changed.n IS NOT NULL AS changed, h.processor_key, clock_timestamp() AS now
  FROM held h
  LEFT JOIN changed ON changed.n = h.n`
)

func (s *Store) runChanges(ctx context.Context, p coalesce.Pass, group []change) ([]coalesce.Answer[state], error) {
	n := len(group)
	keys, kinds, fences, ids, leases, ttls := texts(n), texts(n), texts(n), texts(n), numbers(n), numbers(n)
	for i, c := range group {
		keys[i], kinds[i], fences[i], ids[i] = c.held.Record, string(c.kind), c.fence, string(c.held.ClaimID)
		leases[i], ttls[i] = c.lease.Microseconds(), c.ttl.Microseconds()
	}
	type row struct {
		N            int            `db:"n"`
		Changed      bool           `db:"changed"`
		ProcessorKey sql.NullString `db:"processor_key"`
		Now          time.Time      `db:"now"`
	}
	rows, err := once[row](ctx, s.db, changesSQL(p.SkipLocked), keys, kinds, fences, ids, leases, ttls,
		sqldb.Milliseconds(p.Wait))
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	answers := make([]coalesce.Answer[state], n)
	for i := range answers {
		answers[i].Locked = p.SkipLocked // or gone, which a pass that waits will tell
	}
	for _, row := range rows {
		a, h := &answers[row.N-1], group[row.N-1].held
		a.Locked = false
		if row.Changed {
			h.ProcessorKey, h.Now, h.TakenOver = row.ProcessorKey.String, row.Now.UTC(), true
			a.Value.held = &h
		}
	}
	return answers, nil
}
