package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// lease identifies a try's claim to its pots. No other try has its number: an acquisition whose answer was lost, and
// that the server executes later, must not look like the lease of the next try.
type lease struct {
	number  uuid.UUID
	expires time.Time // by the database's clock
}

const (
	// acquireFreeSQL leases the pots that are free or whose lease has expired, in the order of their ids. It waits for
	// none: its WHERE fails for a leased pot before any lock, and a pot that another session is leasing is skipped.
	acquireFreeSQL = `
WITH free AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[]) AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
       AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE SKIP LOCKED
)` + takeSQL

	// acquireSQL leases pots after it has waited for the sessions that have their rows locked, which release their
	// leases then.
	acquireSQL = `
WITH free AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[]) AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE
)` + takeSQL

	takeSQL = `, taken AS (
    UPDATE pyggpot.pot AS p
       SET lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'
      FROM free
     WHERE p.id = free.id AND (free.lock IS NULL OR free.lock_expire_time <= clock_timestamp())
    RETURNING p.id, p.lock_expire_time, free.lock IS NOT NULL AS expired
)
SELECT p.id, t.lock_expire_time AS expires, coalesce(t.expired, false) AS expired
  FROM pyggpot.pot AS p LEFT JOIN taken AS t ON t.id = p.id
 WHERE p.id = ANY($1::integer[])`

	// leasedSQL are the pots that have these leases, locked in the order of their ids.
	leasedSQL = `
    SELECT p.id
      FROM unnest($1::integer[], $2::uuid[]) AS n (id, number)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.lock = n.number
     ORDER BY p.id
       FOR UPDATE OF p`

	releaseSQL = `
WITH ours AS MATERIALIZED (` + leasedSQL + ` SKIP LOCKED)
UPDATE pyggpot.pot AS p SET lock = NULL, lock_expire_time = NULL FROM ours WHERE p.id = ours.id`

	// resolveSQL waits until no transaction changes the pots, and then reads which of them still have these leases, and
	// whether the leases' time may be over. The inner SELECT has its locks before the clock is read.
	resolveSQL = `
SELECT l.id, l.ours, clock_timestamp() < $3 AS alive
  FROM (SELECT p.id, coalesce(p.lock = n.number, false) AS ours
          FROM unnest($1::integer[], $2::uuid[]) AS n (id, number)
          JOIN pyggpot.pot AS p ON p.id = n.id
         ORDER BY p.id
           FOR UPDATE OF p) AS l`

	writeSQL     = `WITH fenced AS MATERIALIZED (` + fenceSQL + `)` + changeSQL
	writeFreeSQL = `WITH fenced AS MATERIALIZED (` + fenceSQL + ` SKIP LOCKED)` + changeSQL

	// changeSQL writes the kinds that changed and the sum of all, and releases the leases.
	changeSQL = `, changed AS (
    INSERT INTO pyggpot.coin AS c (pot_id, denomination, coin_count)
    SELECT n.pot_id, n.denomination, n.coin_count
      FROM unnest($4::integer[], $5::integer[], $6::integer[]) AS n (pot_id, denomination, coin_count)
      JOIN fenced AS f ON f.id = n.pot_id
     ORDER BY n.pot_id, n.denomination
    ON CONFLICT (pot_id, denomination) DO UPDATE SET coin_count = excluded.coin_count
)
UPDATE pyggpot.pot AS p
   SET coins = f.coins, lock = NULL, lock_expire_time = NULL
  FROM fenced AS f
 WHERE p.id = f.id
RETURNING p.id`
)

var (
	// errHeld reports that another holder has the pot's lease, or that its row is locked.
	errHeld = errors.New("the pot is leased")
	// errUnsure reports that the answer to an acquisition was lost. The lease was released, if it had been acquired.
	errUnsure = errors.New("the answer to the acquisition of a lease was lost")
	// errLost reports that the lease has expired or that another holder has it. Nothing was changed.
	errLost = errors.New("the lease is lost")
)

// acquire tries once to lease the pots that have no lease, and sets the answers of those that it could not lease:
// errHeld, errUnsure, pot.ErrNotFound, or an error of the database. It returns coalesce.ErrLockWait when the pass asks
// for a wait that ran out.
func (s *Store) acquire(ctx context.Context, pass coalesce.Pass, group []*queue, answers []answer) error {
	number := uuid.New()
	asked := make(pq.Int32Array, 0, len(group))
	for _, q := range group {
		if q.lease == nil {
			asked = append(asked, int32(q.id))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	statement := acquireSQL
	if pass.SkipLocked {
		statement = acquireFreeSQL
	}
	type potAnswer struct {
		ID      int32        `db:"id"`
		Expires sql.NullTime `db:"expires"`
		Expired bool         `db:"expired"`
	}
	var found []potAnswer
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		found = nil
		return conn.SelectContext(ctx, &found, statement, asked, number, s.options.TTL.Microseconds(),
			sqldb.Milliseconds(pass.Wait))
	})
	if err = coalesce.Classify(err); errors.Is(err, coalesce.ErrLockWait) {
		return err
	}
	if unknown(err) {
		numbers := make(pq.StringArray, len(asked))
		for i := range numbers {
			numbers[i] = number.String()
		}
		s.releaseAll(ctx, asked, numbers)
		err = errUnsure
	}
	byID := make(map[int32]potAnswer, len(found))
	for _, a := range found {
		byID[a.ID] = a
	}
	for i, q := range group {
		if q.lease != nil {
			continue
		}
		a, exists := byID[int32(q.id)]
		switch {
		case err != nil:
			answers[i].Err = err
		case !exists:
			answers[i].Err = pot.ErrNotFound
		case !a.Expires.Valid:
			s.lock.Conflict(contention.Held)
			answers[i].Err = errHeld
		default:
			if a.Expired {
				s.lock.Conflict(contention.TakenOver)
			}
			q.lease = &lease{number: number, expires: a.Expires.Time}
			s.recordWait(q)
		}
	}
	return nil
}

// identify returns the pots and their leases.
func identify(leased []*queue) (ids pq.Int32Array, numbers pq.StringArray) {
	ids, numbers = make(pq.Int32Array, len(leased)), make(pq.StringArray, len(leased))
	for i, q := range leased {
		ids[i], numbers[i] = int32(q.id), q.lease.number.String()
	}
	return ids, numbers
}

// sleep waits for about RetryWait. It returns false when ctx ends first.
func (s *Store) sleep(ctx context.Context) bool {
	timer := time.NewTimer(jitter(s.options.RetryWait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notApplied returns err with the outcome NotApplied.
func notApplied(err error) error {
	known, ok := errors.AsType[*sqldb.Error](err)
	if !ok {
		return err
	}
	e := *known
	e.Outcome = sqldb.NotApplied
	return &e
}

// unknown reports whether err leaves the outcome unknown.
func unknown(err error) bool {
	outcome, known := sqldb.OutcomeOf(err)
	return known && outcome == sqldb.Unknown
}

// releaseWithin bounds a release.
const releaseWithin = time.Second

// release ends the leases that the pots still have. It returns no error: a lease that is not released expires.
func (s *Store) release(ctx context.Context, leased ...*queue) {
	if len(leased) == 0 {
		return
	}
	ids, numbers := identify(leased)
	for _, q := range leased {
		q.lease = nil
	}
	s.releaseAll(ctx, ids, numbers)
}

func (s *Store) releaseAll(ctx context.Context, ids pq.Int32Array, numbers pq.StringArray) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	// The error is the database's, which the next statement meets as well.
	_ = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, releaseSQL, ids, numbers)
		return err
	})
}

// resolveWithin bounds the look-up of a lost COMMIT.
const resolveWithin = 5 * time.Second

// resolve looks up what became of a write whose COMMIT got no answer, of each pot by itself. It returns nil for a pot
// whose change is committed, a [*sqldb.Error] that is NotApplied when it is not, and lost when that cannot be known.
//
// The change and the release of its lease are one COMMIT, and until the lease's time is over no other holder can take
// it. So when the pot still has the lease nothing was committed, and when the lease is gone before its time all was.
// This is stored with the data: unlike a transaction's id (sqldb.ResolveOutcome) it is right after a crash of the
// server, too, and costs nothing while no answer is lost. A lease that is gone and whose time is over proves nothing.
func (s *Store) resolve(ctx context.Context, leased []*queue, lost error) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
	defer cancel()
	ids, numbers := identify(leased)
	first := leased[0].lease.expires
	for _, q := range leased {
		if q.lease.expires.Before(first) {
			first = q.lease.expires
		}
	}
	type potAnswer struct {
		ID    int32 `db:"id"`
		Ours  bool  `db:"ours"`
		Alive bool  `db:"alive"`
	}
	var found []potAnswer
	for {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			found = nil
			return conn.SelectContext(ctx, &found, resolveSQL, ids, numbers, first)
		})
		if err == nil || !s.sleep(ctx) {
			break
		}
	}
	byID := make(map[int32]potAnswer, len(found))
	for _, a := range found {
		byID[a.ID] = a
	}
	results := make([]error, len(leased))
	var still []*queue
	for i, q := range leased {
		a, known := byID[int32(q.id)]
		switch {
		case known && a.Ours:
			still = append(still, q)
			results[i] = notApplied(lost)
			continue
		case known && a.Alive:
		default:
			results[i] = lost
		}
		q.lease = nil
	}
	s.release(ctx, still...)
	return results
}
