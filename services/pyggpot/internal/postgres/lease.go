package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// lease holds the pots that a group has leased. The column lock of its pots holds the number of the store: a lease
// belongs to the replica, whose next group takes it again if this one could not release it.
type lease struct {
	asked time.Time
	pots  map[pot.ID]leasedPot
}

// leasedPot is a pot as it was leased.
type leasedPot struct {
	pot.Pot

	version  string // of the row, which the lease has written: its xmin
	contents string // as contentsSQL has returned them
}

// take leases the pots of a group, in a separate commit: see groupcommit.Lease.
func (s *Store) take(ctx context.Context, pass groupcommit.Attempt, group []pot.Change) (any, []bool, error) {
	ids := idsOf(group)
	if !pass.SkipLocked {
		if err := s.await(ctx, ids, pass.LockWait); err != nil {
			return nil, nil, err
		}
	}

	l := &lease{asked: time.Now()}
	others, err := s.acquire(ctx, l, ids)
	if err != nil {
		if sqldb.SQLState(err) == "" { // no answer of the server: it may have leased them
			s.release(ctx, l, group)
		}
		return nil, nil, err
	}

	held := make([]bool, len(group))
	for i, c := range group {
		held[i] = slices.Contains(others, int32(c.Pot))
	}
	return l, held, nil
}

// await waits for the session that has the row of a pot locked, for wait at most: at the end of its change the holder
// releases the lease.
func (s *Store) await(ctx context.Context, ids pq.Int32Array, wait time.Duration) error {
	const query = `
WITH locked AS MATERIALIZED (
    SELECT id
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[]) AND (SELECT set_config('lock_timeout', $2, true)) IS NOT NULL
       FOR UPDATE
)
SELECT count(*) FROM locked`
	var n int
	return s.db.Repeatable().GetContext(ctx, &n, query, ids, sqldb.Milliseconds(wait))
}

// contentsSQL is a JSON object with the coins of the pot p by kind.
const contentsSQL = `coalesce((SELECT json_object_agg(denomination, coin_count ORDER BY denomination)::text
                 FROM pyggpot.coin WHERE pot_id = p.id AND coin_count > 0), '{}')`

// leaseSQL leases the pots that are free, or whose lease has expired, and returns them with the versions of their rows,
// and with their coins as of the statement's snapshot; "others" are those that are there and were not leased. It waits
// for no row: a pot that is leased fails its condition before any lock, and one that another session is leasing is
// skipped. It may be sent twice.
const leaseSQL = `
WITH free AS MATERIALIZED (
    SELECT id, lock
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND (lock IS NULL OR lock = $2::uuid OR lock_expire_time <= clock_timestamp())
       FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE pyggpot.pot AS p
       SET lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'
     WHERE p.id = ANY(ARRAY(SELECT id FROM free))
    RETURNING p.id, p.max_coins, p.xmin AS version, ` + contentsSQL + ` AS contents
)
SELECT coalesce(array_agg(id), '{}') AS ids,
       coalesce(array_agg(max_coins), '{}') AS max_coins,
       coalesce(array_agg(version), '{}') AS versions,
       coalesce(array_agg(contents), '{}') AS contents,
       (SELECT count(*) FROM free WHERE lock <> $2) AS expired,
       CASE WHEN count(*) < cardinality($1::integer[]) THEN ARRAY(
           SELECT id FROM pyggpot.pot WHERE id = ANY($1::integer[]) AND id NOT IN (SELECT id FROM leased)
       ) ELSE '{}' END AS others
  FROM leased`

// acquire leases the pots that are free, and returns the others.
func (s *Store) acquire(ctx context.Context, l *lease, ids pq.Int32Array) ([]int32, error) {
	var leased struct {
		IDs      pq.Int32Array  `db:"ids"`
		MaxCoins pq.Int32Array  `db:"max_coins"`
		Versions pq.StringArray `db:"versions"`
		Contents pq.StringArray `db:"contents"`
		Expired  int64          `db:"expired"`
		Others   pq.Int32Array  `db:"others"`
	}
	err := s.db.Repeatable().GetContext(ctx, &leased, leaseSQL, ids, s.number, s.options.TTL.Microseconds())
	if err != nil {
		return nil, err
	}

	l.pots = make(map[pot.ID]leasedPot, len(leased.IDs))
	for i, id := range leased.IDs {
		p := leasedPot{pot.Pot{ID: pot.ID(id), MaxCoins: leased.MaxCoins[i]}, leased.Versions[i], leased.Contents[i]}
		if err := json.Unmarshal([]byte(p.contents), &p.Contents); err != nil {
			return nil, fmt.Errorf("the coins of a pot: %w", err)
		}
		l.pots[p.ID] = p
	}
	s.lock.Conflicts(contention.Held, int64(len(leased.Others)))
	s.lock.Conflicts(contention.TakenOver, leased.Expired)
	return leased.Others, nil
}

// idsOf returns the pots of a group, each once.
func idsOf(group []pot.Change) pq.Int32Array {
	ids := make(pq.Int32Array, len(group))
	for i, c := range group {
		ids[i] = int32(c.Pot)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// releaseSQL ends the leases that a replica still has. It waits for rows that other replicas lock while they wait for
// these pots. It may be sent twice: a late second one costs another group of the replica a retry at most.
const releaseSQL = `
WITH ours AS MATERIALIZED (
    SELECT id
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND lock = $2
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE
)
UPDATE pyggpot.pot AS p
   SET lock = NULL, lock_expire_time = NULL
  FROM ours AS o
 WHERE p.id = o.id
RETURNING p.id`

const (
	// releaseWithin bounds a release, and releaseWait its wait for a row.
	releaseWithin = time.Second
	releaseWait   = 200 * time.Millisecond
)

// release ends the leases of a group: see groupcommit.Lease. It returns no error: the replica's next group has a lease
// that is not released, and for others it expires.
func (s *Store) release(ctx context.Context, _ any, group []pot.Change) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	var released []int32
	_ = s.db.Repeatable().SelectContext(ctx, &released, releaseSQL, idsOf(group), s.number,
		sqldb.Milliseconds(releaseWait))
}
