package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

const (
	// leaseFreeSQL leases the pots that are free, or whose lease has expired. It waits for no row: a pot that is leased
	// fails its condition before any lock, and one that another session is leasing is skipped.
	leaseFreeSQL = `
WITH found AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND (lock IS NULL OR lock = $2::uuid OR lock_expire_time <= clock_timestamp())
     ORDER BY id
       FOR UPDATE SKIP LOCKED` + leaseFoundSQL

	// leaseSQL first waits for the session that has the pot's row locked: at the end of its change the holder releases
	// the lease.
	leaseSQL = `
WITH found AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE` + leaseFoundSQL

	// leaseFoundSQL may be sent twice. It returns the pots that are there and that others hold, and how many leases had
	// expired.
	leaseFoundSQL = `
), leased AS (
    UPDATE pyggpot.pot AS p
       SET lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'
      FROM found AS f
     WHERE p.id = f.id
       AND (f.lock IS NULL OR f.lock = $2 OR f.lock_expire_time <= clock_timestamp())
    RETURNING p.id, f.lock <> $2 AS expired
)
SELECT coalesce(array_agg(p.id) FILTER (WHERE l.id IS NULL), '{}') AS held,
       count(*) FILTER (WHERE l.expired) AS expired
  FROM pyggpot.pot AS p
  LEFT JOIN leased AS l ON l.id = p.id
 WHERE p.id = ANY($1::integer[])`
)

// take leases the pots of a group: see groupcommit.Lease. The token is the number in the pots' column lock. No other
// group has it: a statement that was given up and that the server executes later must not look like another's lease.
func (s *Store) take(
	ctx context.Context, pass groupcommit.Attempt, group []pot.Change,
) (token string, held []bool, err error) {
	ids, token := idsOf(group), uuid.NewString()
	var found struct {
		Held    pq.Int32Array `db:"held"`
		Expired int64         `db:"expired"`
	}
	query, args := leaseFreeSQL, []any{ids, token, s.options.TTL.Microseconds()}
	if !pass.SkipLocked {
		query, args = leaseSQL, append(args, sqldb.Milliseconds(pass.LockWait))
	}
	if err := s.db.GetUnqueued(ctx, &found, query, args...); err != nil {
		if sqldb.SQLState(err) == "" { // no answer of the server: it may have leased them
			s.release(ctx, token, group)
		}
		return "", nil, err
	}

	s.lock.Conflicts(contention.Held, int64(len(found.Held)))
	s.lock.Conflicts(contention.TakenOver, found.Expired)
	held = make([]bool, len(group))
	for i, c := range group {
		held[i] = slices.Contains(found.Held, int32(c.Pot))
	}
	return token, held, nil
}

const (
	// releaseSQL ends the leases of a group that the pots still have. It waits for rows that other replicas lock while
	// they try to lease them. releaseFreeSQL leaves those that stay locked.
	releaseSQL     = `WITH ours AS MATERIALIZED (` + oursSQL + `)` + clearSQL
	releaseFreeSQL = `WITH ours AS MATERIALIZED (` + oursSQL + ` SKIP LOCKED)` + clearSQL

	oursSQL = `
    SELECT id
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[])
       AND lock = $2
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE`
	clearSQL = `
UPDATE pyggpot.pot AS p SET lock = NULL, lock_expire_time = NULL FROM ours WHERE p.id = ours.id`

	// releaseWithin bounds a release, and releaseWait its wait for a row.
	releaseWithin = time.Second
	releaseWait   = 100 * time.Millisecond
)

// release ends the leases of a group: see groupcommit.Lease. It returns no error: a lease that is not released expires.
func (s *Store) release(ctx context.Context, token string, group []pot.Change) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	for _, query := range [...]string{releaseSQL, releaseFreeSQL} {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			_, err := conn.ExecContext(ctx, query, idsOf(group), token, sqldb.Milliseconds(releaseWait))
			return err
		})
		if !sqldb.LockTimedOut(err) {
			return // any other error is the database's, which the next statement meets as well
		}
	}
}
