package postgres

import (
	"context"
	"errors"
	"slices"
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
	expires time.Time // by the database's clock, of the first pot
	history string    // of the server, read before the lease was acquired; "" when that is not known
}

const (
	// acquireFreeSQL leases the pots that are free or whose lease has expired, in the order of their ids, and reads their
	// coins. It waits for none: its WHERE fails for a leased pot before any lock, and a pot that another session is
	// leasing is skipped.
	//
	// The coins are those of the statement's snapshot. Each change of a pot writes its row, too, so they are up to date
	// where the locked version of the row is the one in the snapshot. A pot that another holder has changed in between is
	// not leased: no row of the snapshot has its new version's ctid.
	acquireFreeSQL = `
WITH free AS MATERIALIZED (
    SELECT ctid AS version, lock
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[]) AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
     ORDER BY id
       FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE pyggpot.pot AS p SET ` + leaseSQL + `
      FROM free
     WHERE p.ctid = free.version
    RETURNING ` + takenSQL + `
SELECT t.ids, t.max_coins, t.expired, t.expires, t.others, c.pots, c.denominations, c.counts
  FROM (` + answerSQL + `) AS t CROSS JOIN (` + coinsSQL + `) AS c`

	// acquireSQL leases pots after it has waited for the sessions that have their rows locked, which release their leases
	// then. It reads no coins: its snapshot is older than that.
	acquireSQL = `
WITH free AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = ANY($1::integer[]) AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
     ORDER BY id
       FOR UPDATE
), taken AS (
    UPDATE pyggpot.pot AS p SET ` + leaseSQL + `
      FROM free
     WHERE p.id = free.id AND (free.lock IS NULL OR free.lock_expire_time <= clock_timestamp())
    RETURNING ` + takenSQL + answerSQL

	leaseSQL = `lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'`
	takenSQL = `p.id, p.max_coins, p.lock_expire_time, free.lock IS NOT NULL AS expired
)`

	// answerSQL returns the leased pots. "others" are those that are there and were not leased.
	answerSQL = `
SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(t.max_coins), '{}') AS max_coins,
       count(*) FILTER (WHERE t.expired) AS expired, coalesce(min(t.lock_expire_time), 'epoch') AS expires,
       CASE WHEN count(*) < cardinality($1::integer[]) THEN ARRAY(
           SELECT p.id FROM pyggpot.pot AS p
            WHERE p.id = ANY($1::integer[]) AND NOT EXISTS (SELECT FROM taken WHERE taken.id = p.id)
       ) ELSE '{}' END AS others
  FROM taken AS t`

	// leasedSQL are the pots that have these leases, locked in the order of their ids.
	leasedSQL = `
    SELECT p.id
      FROM unnest($1::integer[], $2::uuid[]) AS n (id, number)
      JOIN pyggpot.pot AS p ON p.id = n.id
     WHERE p.lock = n.number AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
     ORDER BY p.id
       FOR UPDATE OF p`

	releaseSQL     = `WITH ours AS MATERIALIZED (` + leasedSQL + `)` + clearSQL
	releaseFreeSQL = `WITH ours AS MATERIALIZED (` + leasedSQL + ` SKIP LOCKED)` + clearSQL

	clearSQL = `
UPDATE pyggpot.pot AS p SET lock = NULL, lock_expire_time = NULL FROM ours WHERE p.id = ours.id`

	// resolveSQL waits until no transaction changes the pots, and then reads which of them still have these leases, and
	// whether the leases' time may be over: it has a pot's lock before it reads the clock for it. The leases get another
	// number, since the server may execute the lost statement later. It may be sent again: it knows both numbers.
	resolveSQL = `
WITH locked AS MATERIALIZED (
    SELECT p.id, coalesce(p.lock IN (n.number, $4::uuid), false) AS ours
      FROM unnest($1::integer[], $2::uuid[]) AS n (id, number)
      JOIN pyggpot.pot AS p ON p.id = n.id
     ORDER BY p.id
       FOR UPDATE OF p
), revoked AS (
    UPDATE pyggpot.pot AS p SET lock = $4::uuid FROM locked AS l WHERE p.id = l.id AND l.ours
)
SELECT coalesce(array_agg(l.id) FILTER (WHERE l.ours), '{}') AS ours,
       coalesce(bool_and(clock_timestamp() < $3), false) AS alive, ` + sqldb.HistorySQL + ` AS history
  FROM locked AS l`
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
	asked := make(pq.Int32Array, 0, len(group))
	for _, q := range group {
		if q.lease == nil {
			asked = append(asked, int32(q.id))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	number, history := uuid.New(), s.history.before(ctx, s.db)
	var ids, maxCoins, others pq.Int32Array
	var seen coins
	var expired int64
	var expires time.Time
	statement, args := acquireFreeSQL, []any{asked, number, s.options.TTL.Microseconds()}
	columns := []any{&ids, &maxCoins, &expired, &expires, &others}
	if pass.SkipLocked {
		columns = append(columns, &seen.pots, &seen.kinds, &seen.counts)
	} else {
		statement, args = acquireSQL, append(args, sqldb.Milliseconds(pass.Wait))
	}
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.QueryRowContext(ctx, statement, args...).Scan(columns...)
	})
	if err = coalesce.Classify(err); errors.Is(err, coalesce.ErrLockWait) {
		return err
	}
	if err != nil {
		s.history.forget() // a failover begins with errors
	}
	reason := pot.ErrNotFound
	if unknown(err) {
		s.releaseAll(ctx, asked, slices.Repeat(pq.StringArray{number.String()}, len(asked)))
		reason = errUnsure
	} else if err != nil {
		reason = err
	}
	s.lock.Conflicts(contention.Held, int64(len(others)))
	s.lock.Conflicts(contention.TakenOver, expired)
	for i, q := range group {
		if q.lease != nil {
			continue
		}
		if n := slices.Index(ids, int32(q.id)); n >= 0 {
			q.lease, q.before = &lease{number, expires, history}, pot.Pot{ID: q.id, MaxCoins: maxCoins[n]}
			if pass.SkipLocked {
				q.before.Contents = seen.of(q.id)
			}
			s.recordWait(q)
		} else if answers[i].Err = reason; slices.Contains(others, int32(q.id)) {
			answers[i].Err = errHeld
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

// release ends the leases that the pots still have. It waits for rows that other replicas lock to try for a lease, and
// leaves those that stay locked. It returns no error: a lease that is not released expires.
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
	wait := sqldb.Milliseconds(min(s.options.RetryWait, releaseWithin/2))
	for _, statement := range [...]string{releaseSQL, releaseFreeSQL} {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			_, err := conn.ExecContext(ctx, statement, ids, numbers, wait)
			return err
		})
		if !errors.Is(coalesce.Classify(err), coalesce.ErrLockWait) {
			return // any other error is the database's, which the next statement meets as well
		}
	}
}

// resolveWithin bounds the look-up of a lost COMMIT.
const resolveWithin = 5 * time.Second

// resolve looks up what became of a write whose COMMIT got no answer, of each pot by itself. It returns nil for a pot
// whose change is committed, a [*sqldb.Error] that is NotApplied when it is not, and lost when that cannot be known.
//
// The change and the release of its lease are one COMMIT, and until the lease's time is over no other holder can take
// it. So when the pot still has the lease nothing was committed, nor will be as resolve changes the lease's number, and
// when the lease is gone before its time all was: on the server that the lease was acquired on. A standby that was
// promoted since may have neither the lease nor the change. So the history of the server must be that of before the
// lease, which a restart does not change.
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
	number := uuid.New()
	var ours pq.Int32Array
	var alive bool
	var history string
	for {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.QueryRowContext(ctx, resolveSQL, ids, numbers, first, number).Scan(&ours, &alive, &history)
		})
		if err == nil {
			break
		}
		if ours, alive = nil, false; !s.sleep(ctx) {
			break
		}
	}
	s.history.forget()
	results := make([]error, len(leased))
	var still []*queue
	for i, q := range leased {
		if slices.Contains(ours, ids[i]) {
			q.lease = &lease{number: number, expires: q.lease.expires}
			results[i], still = notApplied(lost), append(still, q)
			continue
		}
		if !alive || history != q.lease.history {
			results[i] = lost
		}
		q.lease = nil
	}
	s.release(ctx, still...)
	return results
}
