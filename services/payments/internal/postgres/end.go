package postgres

import (
	"context"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// end asks for the end of a claim without a payment.
type end struct {
	held payment.Held
	drop bool // instead of giving it back
}

// size returns the bytes that an end takes on the wire.
func (e end) size() int {
	const others = 64
	return others + len(e.held.Key.Value) + len(e.held.Key.Caller)
}

// GiveBack implements payment.Repository.
func (s *Store) GiveBack(ctx context.Context, h payment.Held) error {
	_, err := s.ends.Do(ctx, end{held: h})
	return err
}

// Drop implements payment.Repository.
func (s *Store) Drop(ctx context.Context, h payment.Held) error {
	_, err := s.ends.Do(ctx, end{held: h, drop: true})
	return err
}

// endHead and endTail end claims, each if its fence holds: a claim that is given back has run out. The fence is read
// from the locked row, and so after the wait for the lock.
const (
	endHead = `
WITH held AS MATERIALIZED (
    SELECT l.n, l.gone, l.caller, l.key, l.mine, clock_timestamp() - statement_timestamp() AS waited
      FROM (SELECT c.n, c.gone, r.caller, r.key, r.status = 'PROCESSING' AND r.claim_id = c.claim_id AS mine
              FROM unnest($2::text[], $3::text[], $4::uuid[], $5::bool[])
                   WITH ORDINALITY AS c (caller, key, claim_id, gone, n)
              JOIN payments.idempotency_records r ON r.key = c.key AND r.caller = c.caller
             WHERE (SELECT set_config('lock_timeout', $1, true)) IS NOT NULL
             ORDER BY r.key, r.caller
               FOR UPDATE OF r`

	endTail = `) AS l
), given_back AS (
    UPDATE payments.idempotency_records r
       SET claimed_until = clock_timestamp()
      FROM held h
     WHERE h.mine AND NOT h.gone AND r.key = h.key AND r.caller = h.caller
), dropped AS (
    DELETE FROM payments.idempotency_records r USING held h
     WHERE h.mine AND h.gone AND r.key = h.key AND r.caller = h.caller
)
SELECT n, extract(epoch FROM waited)::float8 AS waited FROM held`
)

// sendEnds sends a group of ends: see groupcommit.Config.Repeat. A claim that has ended no longer belongs to its
// holder.
func sendEnds(ctx context.Context, session groupcommit.Session, a *groupcommit.Attempt, group []end) ([]*bool, error) {
	n := len(group)
	callers, keys, claims, drops := texts(n), texts(n), texts(n), make(pq.BoolArray, n)
	for i, e := range group {
		callers[i], keys[i] = e.held.Key.Caller, e.held.Key.Value
		claims[i], drops[i] = string(e.held.ClaimID), e.drop
	}

	var rows []struct {
		N      int     `db:"n"`
		Waited float64 `db:"waited"`
	}
	err := session.SelectContext(ctx, &rows, skipLocked(a, endHead, endTail), sqldb.Milliseconds(a.LockWait), callers,
		keys, claims, drops)
	if err != nil {
		return nil, err
	}

	answers := missing[bool](a, n)
	for _, row := range rows {
		answers[row.N-1] = new(bool)
		a.WaitedFor(row.Waited)
	}
	return answers, nil
}
