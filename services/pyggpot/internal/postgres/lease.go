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

// lease is one try's claim to a pot. Its number is of this try alone: an
// acquisition that was given up for lost and arrives late all the same must not
// look like the lease of the next try.
type lease struct {
	pot     pot.ID
	number  uuid.UUID
	expires time.Time // by the database's clock
}

const (
	// acquireSQL takes a pot that is free or whose lease has expired. A pot that is
	// leased does not make it wait, since its WHERE fails before any lock.
	acquireSQL = `
WITH taken AS (
    UPDATE pyggpot.pot
       SET lock = $2, lock_expire_time = clock_timestamp() + $3 * interval '1 microsecond'
     WHERE id = $1 AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
    RETURNING lock_expire_time
)
SELECT (SELECT lock_expire_time FROM taken) AS expires, lock IS NOT NULL AS expired FROM pyggpot.pot WHERE id = $1`

	releaseSQL = `UPDATE pyggpot.pot SET lock = NULL, lock_expire_time = NULL WHERE id = $1 AND lock = $2`

	// settleSQL reads whether the lease is still ours, when no change of the pot is
	// under way any more, and then whether it may have expired. The inner SELECT is
	// done, lock and all, before the clock is asked.
	settleSQL = `
SELECT l.ours, clock_timestamp() < $3 AS alive
  FROM (SELECT coalesce(lock = $2, false) AS ours FROM pyggpot.pot WHERE id = $1 FOR UPDATE) AS l`
)

var (
	// errHeld says that the pot is leased to somebody else.
	errHeld = errors.New("the pot is leased")
	// errUnsure says that the answer to an acquisition was lost. The lease was
	// given back, if it was there.
	errUnsure = errors.New("the answer to the acquisition of a lease was lost")
	// errLost says that the lease is not ours any more. Nothing was changed.
	errLost = errors.New("the lease is lost")
)

// acquire tries once to lease the pot. Beside errors of the database it fails with
// errHeld, errUnsure and pot.ErrNotFound.
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
	case leftOpen(err):
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

// releaseWithin bounds a release that nobody waits for.
const releaseWithin = time.Second

// release gives the lease back, if it is ours, whether or not the caller is still
// there. An error is not worth one: the lease expires.
func (s *Store) release(ctx context.Context, l lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	// The error is that of the database, which whoever comes next meets too.
	_ = s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, releaseSQL, int32(l.pot), l.number)
		return err
	})
}

// settleWithin bounds the search for what became of a change.
const settleWithin = 5 * time.Second

// settle finds out what became of a change whose COMMIT got no answer: nil says
// that it is there, an [*sqldb.Error] that is NotApplied that it is not.
//
// The change and the release of its lease are one COMMIT, and as long as the lease
// lives nobody else can take it. So a lease that is ours says that nothing was
// committed, and one that is gone before its time that all was. This stands in the
// data: unlike a transaction's id (sqldb.ResolveOutcome) it is true after a crash
// of the server, too, and costs nothing while all is well. A lease that is gone and
// whose time is over proves nothing.
func (s *Store) settle(ctx context.Context, l lease, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	w := waiting{newTimer: s.newTimer}
	defer w.stop()
	for {
		var answer struct {
			Ours  bool `db:"ours"`
			Alive bool `db:"alive"`
		}
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &answer, settleSQL, int32(l.pot), l.number, l.expires)
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
		if w.wait(ctx, jitter(s.options.RetryWait)) != nil {
			return lost
		}
	}
}

// notApplied is the error with a better knowledge of its outcome.
func notApplied(err error) error {
	known, ok := errors.AsType[*sqldb.Error](err)
	if !ok {
		return err
	}
	e := *known
	e.Outcome = sqldb.NotApplied
	return &e
}

// leftOpen tells whether an error leaves open what was done.
func leftOpen(err error) bool {
	outcome, known := sqldb.OutcomeOf(err)
	return known && outcome == sqldb.Unknown
}
