package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

// The statements of claims. $1 is the list, leases are in microseconds.
const (
	// freeSQL takes up to $3 free items, with a lease of $4, but none if their lines may have more than $6 bytes (size).
	// It also returns how many of the leases had ended, and how many rows it walked past before the first item, up to
	// $5 + 1.
	//
	// Items that are not claimed, and those whose leases have ended, are read from their indexes. If more than $5 leases
	// have ended, to sort them by item would cost each claim too much: then it walks the key from $2 on. lease_until is in
	// the order of unclaimed, although it is NULL, because only the index of these items has that order.
	freeSQL = `
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS t
), ended AS MATERIALIZED (
    SELECT item
      FROM iidy.lists
     WHERE list = $1 AND lease_until <= (SELECT t FROM clock)
     ORDER BY lease_until
     LIMIT $5::bigint + 1
), many AS MATERIALIZED (
    SELECT count(*) > $5 AS yes FROM ended
), unclaimed AS MATERIALIZED (
    SELECT list, item, false AS expired
      FROM iidy.lists
     WHERE NOT (SELECT yes FROM many) AND list = $1 AND lease_until IS NULL
     ORDER BY lease_until, item
     LIMIT (SELECT $3::bigint)
       FOR UPDATE SKIP LOCKED
), few AS MATERIALIZED (
    SELECT f.list, f.item, true AS expired
      FROM (SELECT item FROM ended WHERE NOT (SELECT yes FROM many) ORDER BY item) AS e
     CROSS JOIN LATERAL (
           SELECT l.list, l.item
             FROM iidy.lists l
            WHERE l.list = $1 AND l.item = e.item AND (l.lease_until <= clock_timestamp()) IS TRUE
              FOR UPDATE SKIP LOCKED) AS f
     LIMIT (SELECT $3::bigint)
), walked AS MATERIALIZED (
    SELECT list, item, expired
      FROM (SELECT list, item, expired
              FROM (SELECT list, item, claim IS NOT NULL AS expired
                      FROM iidy.lists
                     WHERE (SELECT yes FROM many) AND list = $1 AND item >= $2
                       AND (lease_until IS NULL OR lease_until <= clock_timestamp())
                     ORDER BY item
                       FOR UPDATE SKIP LOCKED) AS f
             LIMIT (SELECT $3::bigint)) AS f
     LIMIT (SELECT $3::bigint)
), held AS MATERIALIZED (
    SELECT list, item, expired
      FROM (SELECT list, item, expired FROM unclaimed
             UNION ALL
            SELECT list, item, expired FROM few
             UNION ALL
            SELECT list, item, expired FROM walked) AS f
     ORDER BY item
     LIMIT (SELECT $3::bigint)
), need AS MATERIALIZED (
    SELECT coalesce(sum(octet_length(item) + 21), 0) AS size, coalesce(min(item), '') AS first,
           count(*) FILTER (WHERE expired) AS expired
      FROM held
), lease AS MATERIALIZED (
    SELECT gen_random_uuid() AS claim, clock_timestamp() + $4::bigint * interval '1 microsecond' AS until
), taken AS (
    UPDATE iidy.lists l
       SET claim = e.claim, lease_until = e.until
      FROM ` + fewHeldSQL + `, lease e` + theseSQL + `(SELECT size FROM need) <= $6
       AND `

	takenSQL = `
    RETURNING l.item, l.attempts
)
SELECT e.claim::text AS claim, e.until, n.size, n.first, n.expired,
       (SELECT coalesce(string_agg(t.item || ' ' || t.attempts, E'\n' ORDER BY t.item), '') FROM taken t) AS entries,
       (SELECT count(*) FROM (SELECT FROM iidy.lists
                               WHERE (SELECT yes FROM many) AND list = $1 AND item >= $2 AND item < nullif(n.first, '')
                               LIMIT $5::bigint + 1) AS passed) AS passed
  FROM need n, lease e`

	// heldClaimSQL finds the claim by its index. IS TRUE keeps the planner from the index of leases.
	heldClaimSQL = `
WITH held AS MATERIALIZED (
    SELECT l.list, l.item
      FROM iidy.lists l
     WHERE l.claim = $2::text::uuid AND (l.lease_until > ` + leaseClock + `) IS TRUE AND `

	failedSQL = `
WITH held AS MATERIALIZED (
    SELECT l.list, l.item
      FROM iidy.lists l
     WHERE l.list = $1
       AND l.attempts >= $3
       AND ` + claimedSQL

	lockedInOrderSQL = `
     ORDER BY l.item
       FOR UPDATE
)`
)

// claimSQL returns the statement of a claim.
func claimSQL(only condition) string { return freeSQL + only(ofList) + takenSQL }

// abandonSQL returns a statement that returns the number of deleted items.
func abandonSQL(only condition) string {
	return failedSQL + lockedInOrderSQL + clockSQL + deleteHeldSQL + keysSQL + only(ofList) + countSQL
}

// extendSQL and releaseSQL return statements that return the number of items that were still held. On Citus SET does
// not accept the sum of a time and an interval, so the end of the new lease is computed beside the clock.
func extendSQL(only condition) string {
	return heldClaimSQL + only(ofList) + lockedInOrderSQL + `, clock AS MATERIALIZED (
    SELECT c.t, c.t + $3::bigint * interval '1 microsecond' AS until
      FROM (SELECT ` + leaseClock + ` AS t, count(*) AS n FROM held OFFSET 0) AS c
), changed AS (
    UPDATE iidy.lists l
       SET lease_until = k.until
      FROM ` + keysSQL + only(ofList) + countSQL
}

func releaseSQL(only condition) string {
	return heldClaimSQL + only(ofList) + lockedInOrderSQL + clockSQL + `, changed AS (
    UPDATE iidy.lists l
       SET claim = NULL, lease_until = NULL
      FROM ` + keysSQL + only(ofList) + countSQL
}

const (
	// longHead is the number of ended leases above which claims walk the list, and of claimed rows on such a walk above
	// which the replica remembers where the free ones begin. Either takes a millisecond or two.
	longHead = 2000
	// positionTTL limits how long a replica remembers that. For that time, while free items follow the position, it may
	// overlook an item before it that another replica has added or released, or whose lease has ended.
	positionTTL = time.Second
)

// position is the item from which claims walk. Without it each claim of a list whose leases have all ended passes the
// items that were claimed again since, and a list of n items costs n² steps.
type position struct {
	item  string
	until time.Time
}

// taken is a row of claimSQL.
type taken struct {
	Claim   string    `db:"claim"`
	Until   time.Time `db:"until"`
	Size    int       `db:"size"` // upper bound for the entries; there are none if it is too large
	First   string    `db:"first"`
	Expired int64     `db:"expired"` // entries whose earlier lease had ended
	Passed  int64     `db:"passed"`  // rows before the first entry
	// Entries may be long. The slot does not store them: if the reply to COMMIT is lost, the replica still has them.
	Entries string `db:"entries" json:"-"`
}

// Claim implements attempt.Repository.
func (s *Store) Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (attempt.Lease, error) {
	var t taken
	free, err := s.answers.read(ctx, count, func(limit int) (size int, err error) {
		t, err = s.claimFree(ctx, list, count, lease, limit)
		if t.Entries != "" {
			return len(t.Entries), err
		}
		return t.Size, err
	})
	if err != nil || t.Entries == "" {
		return attempt.Lease{}, err
	}

	entries := attempt.NewEntries(t.Entries, free)
	s.metrics.Changed(metrics.Claimed, int64(entries.Len()))
	s.contention.Conflicts(contention.TakenOver, t.Expired)
	return attempt.Lease{Claim: attempt.Claim(t.Claim), Until: t.Until.UTC(), Entries: entries}, nil
}

// claimFree takes free items from the remembered position on, or from the start of the list if none is free there.
func (s *Store) claimFree(
	ctx context.Context, list attempt.List, count int, lease time.Duration, limit int,
) (t taken, err error) {
	if p, ok := s.freeFrom.get(string(list)); ok && time.Now().Before(p.until) {
		t, err = s.claim(ctx, list, p.item, count, lease, limit)
		if err != nil || t.Size > 0 {
			return t, err
		}
		// No item is free after the position, but there may be one before it.
		s.freeFrom.forget(string(list))
	}

	t, err = s.claim(ctx, list, "", count, lease, limit)
	if err == nil && t.Passed > longHead {
		s.freeFrom.put(string(list), position{t.First, time.Now().Add(positionTTL)})
	}
	return t, err
}

// claim takes free items from an item on.
func (s *Store) claim(
	ctx context.Context, list attempt.List, from string, count int, lease time.Duration, limit int,
) (taken, error) {
	entries := ""
	t, err := inTurn(ctx, s.queue, list, false, func(ctx context.Context, tx *sqlx.Tx) (t taken, err error) {
		err = tx.GetContext(ctx, &t, s.text.claim, string(list), from, count, lease.Microseconds(), longHead, limit)
		entries = t.Entries
		return t, err
	})
	t.Entries = entries
	return t, err
}

// Extend implements attempt.Repository.
func (s *Store) Extend(
	ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration,
) (int64, error) {
	n, err := s.changeClaim(ctx, list, s.text.extend, string(claim), lease.Microseconds())
	if err == nil {
		s.noteLost(claim, 1, n) // a claim holds at least one item while it lasts
	}
	s.metrics.Changed(metrics.Extended, n)
	return n, err
}

// Release implements attempt.Repository.
func (s *Store) Release(ctx context.Context, list attempt.List, claim attempt.Claim) (int64, error) {
	n, err := s.changeClaim(ctx, list, s.text.release, string(claim))
	if n > 0 {
		s.freeFrom.forget(string(list))
	}
	s.metrics.Changed(metrics.Released, n)
	return n, err
}

// changeClaim runs a statement on a list and returns the number of items that it changed, 0 on an error.
func (s *Store) changeClaim(ctx context.Context, list attempt.List, query string, args ...any) (int64, error) {
	return inTurn(ctx, s.queue, list, false, func(ctx context.Context, tx *sqlx.Tx) (int64, error) {
		return count(ctx, tx, query, append([]any{string(list)}, args...)...)
	})
}

// Abandon implements attempt.Repository. It reads the whole list, so it has the limits of a long batch.
func (s *Store) Abandon(
	ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim,
) (int64, error) {
	n, err := inLongTurn(ctx, s.queue, list, s.queue.options.LockTimeout, func(
		ctx context.Context, tx *sqlx.Tx,
	) (int64, error) {
		return count(ctx, tx, s.text.abandon, string(list), string(claim), attempts)
	})
	s.metrics.Changed(metrics.Abandoned, n)
	return n, err
}
