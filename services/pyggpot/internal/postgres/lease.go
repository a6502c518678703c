package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// lease identifies one try's claim to a pot. No other try has its number: an acquisition whose answer was lost, and
// that the server executes later, must not look like the lease of the next try.
type lease struct {
	pot     pot.ID
	number  uuid.UUID
	expires time.Time // by the database's clock
}

const (
	// acquireSQL leases a pot that is free or whose lease has expired. It does not wait for a leased pot, since its WHERE
	// fails before any lock.
	acquireSQL = `
WITH taken AS (
    UPDATE pyggpot.pot
       SET lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'
     WHERE id = $1 AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
    RETURNING lock_expire_time
)
SELECT (SELECT lock_expire_time FROM taken) AS expires, lock IS NOT NULL AS expired FROM pyggpot.pot WHERE id = $1`

	releaseSQL = `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL WHERE id = $1 AND lock = $2`

	// resolveSQL waits until no transaction changes the pot, and then reads whether the pot still has this lease, and
	// whether the lease's time may be over. The inner SELECT has its lock before the clock is read.
	resolveSQL = `
SELECT l.ours, clock_timestamp() < $3 AS alive
  FROM (SELECT coalesce(lock = $2, false) AS ours FROM pyggpot.pot WHERE id = $1 FOR UPDATE) AS l`
)

var (
	// errHeld reports that another holder has the pot's lease.
	errHeld = errors.New("the pot is leased")
	// errUnsure reports that the answer to an acquisition was lost. The lease was released, if it had been acquired.
	errUnsure = errors.New("the answer to the acquisition of a lease was lost")
	// errLost reports that the lease has expired or that another holder has it. Nothing was changed.
	errLost = errors.New("the lease is lost")
)

// acquire tries once to lease the pot. Beside errors of the database it returns errHeld, errUnsure and pot.ErrNotFound.
func (s *Store) acquire(ctx context.Context, id pot.ID) (lease, error) {
	l := lease{pot: id, number: uuid.New()}
	var answer []struct {
		Expires sql.NullTime `db:"expires"`
		Expired bool         `db:"expired"`
	}
	err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		answer = nil
		return conn.SelectContext(ctx, &answer, acquireSQL, int32(l.pot), l.number, s.options.TTL.Microseconds())
	})
	switch {
	case unknown(err):
		s.release(ctx, l)
		return l, errUnsure
	case err != nil:
		return l, err
	case len(answer) == 0:
		return l, pot.ErrNotFound
	case !answer[0].Expires.Valid:
		s.lock.Conflict(contention.Held)
		return l, errHeld
	}
	if answer[0].Expired {
		s.lock.Conflict(contention.TakenOver)
	}
	l.expires = answer[0].Expires.Time
	return l, nil
}

// releaseWithin bounds a release, which goes on when its caller has left.
const releaseWithin = time.Second

// release ends the lease if the pot still has it, whether or not ctx has ended. It returns no error: a lease that is
// not released expires.
func (s *Store) release(ctx context.Context, l lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	// The error is the database's, which the next statement meets as well.
	_ = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, releaseSQL, int32(l.pot), l.number)
		return err
	})
}

// resolveWithin bounds the look-up of a lost COMMIT.
const resolveWithin = 5 * time.Second

// resolve looks up what became of a change whose COMMIT got no answer. It returns nil when the change is committed, a
// [*sqldb.Error] that is NotApplied when it is not, and lost when that cannot be known.
//
// The change and the release of its lease are one COMMIT, and until the lease's time is over no other holder can take
// it. So when the pot still has the lease nothing was committed, and when the lease is gone before its time all was.
// This is stored with the data: unlike a transaction's id (sqldb.ResolveOutcome) it is right after a crash of the
// server, too, and costs nothing while no answer is lost. A lease that is gone and whose time is over proves nothing.
func (s *Store) resolve(ctx context.Context, l lease, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveWithin)
	defer cancel()
	var timer retryTimer
	for {
		var answer struct {
			Ours  bool `db:"ours"`
			Alive bool `db:"alive"`
		}
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &answer, resolveSQL, int32(l.pot), l.number, l.expires)
		})
		switch {
		case err == nil && answer.Ours:
			s.release(ctx, l)
			return notApplied(lost)
		case err == nil && answer.Alive:
			return nil
		case err == nil:
			return lost
		}
		if timer.wait(ctx, s.options.RetryWait) != nil {
			return lost
		}
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
