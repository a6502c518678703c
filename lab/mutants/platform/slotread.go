// Mutant of platform/groupcommit/outcome.go: a slot is read, so that what the lost group still commits is not waited for.

package groupcommit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// asking asks a slot what became of an attempt whose answer was lost.
type asking = func(context.Context) (applied bool, err error)

// prove calls send, which sends a change with the slot of an attempt, until it is certain what has become of it, and
// returns the answers that the slot has stored. A sending that changed nothing and never will is repeated in another
// slot.
func (s *Slots) prove(
	ctx context.Context, pass Attempt, send func(ctx context.Context, a *Attempt, ask asking) error,
) ([]byte, error) {
	for sends := 1; ; sends++ {
		used, err := s.take(ctx)
		if err != nil {
			return nil, err
		}

		a := s.attempt(used, pass)
		lost, err := s.proveOnce(ctx, used, &a, send)
		switch {
		case err == nil:
			return a.Answers, nil
		case !lost && !errors.Is(err, ErrNoSlot), sends == maxSends:
			return nil, err
		}
		if outcome, _ := sqldb.OutcomeOf(err); lost && outcome == sqldb.Unknown {
			return nil, err
		}
	}
}

// proveOnce calls send once. When the answer is lost, the slot is asked until it tells: then lost is true, and either
// the change is applied, with the stored answers in a, or it never will be, or err says that this is not known.
func (s *Slots) proveOnce(
	ctx context.Context, used *slot, a *Attempt, send func(ctx context.Context, a *Attempt, ask asking) error,
) (lost bool, err error) {
	err = send(ctx, a, func(ctx context.Context) (applied bool, err error) {
		lost = true
		a.Answers, err = s.ask(ctx, used, a.Number)
		return a.Answers != nil, err
	})
	if err == nil {
		used.attempt = a.Number
	}

	// Where the server has not said what it did, what was sent may still arrive: the slot is not used again.
	if !lost && (err == nil || refused(err) || errors.Is(err, ErrSplit)) {
		s.put(used)
	}
	s.noteShards(err)
	return lost, err
}

// refused reports whether err is the server's own answer that it applied nothing.
func refused(err error) bool {
	e := sqldb.Classify(err, true)
	return e != nil && e.Outcome == sqldb.NotApplied && e.SQLState != ""
}

const askSQL = `
SELECT CASE WHEN attempt = $2 THEN answers END
  FROM %s
 WHERE id = $1 AND attempt <= $2%s`

// errSlotGone says that a slot was deleted, so that it proves nothing.
var errSlotGone = errors.New("groupcommit: the slot of the lost group is gone")

// ask returns the answers that an attempt has stored, or nil when it has changed nothing and never will.
func (s *Slots) ask(ctx context.Context, used *slot, attempt int64) (answers []byte, err error) {
	err = s.db.GetUnqueued(ctx, &answers, fmt.Sprintf(askSQL, s.table, s.ofPlace(3)), s.placed(used.place, used.id, attempt)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errSlotGone
	}
	return answers, err
}
