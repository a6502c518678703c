// Mutant of platform/groupcommit/outcome.go: a slot is read, so that what the lost group still commits is not waited for.

package groupcommit

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// sender sends a change with the slot of an attempt, by a call of the pool that is [sqldb.Proven].
type sender = func(ctx context.Context, a *Attempt) error

// prove calls send until the outcome of the change is certain, and returns the answers that the slot has stored.
// After a lost answer the slot is asked until it tells: the change is applied, with these answers, or it never will be,
// or an error says that this is not known. A sending that changed nothing and never will is repeated in another slot.
func (s *Slots) prove(ctx context.Context, place string, pass Attempt, send sender) ([]byte, error) {
	if s == nil {
		err := send(ctx, &pass)
		return pass.Answers, err
	}

	for sends := 1; ; sends++ {
		used, err := s.take(ctx, place)
		if err != nil {
			return nil, err
		}
		a := pass
		a.Place, a.Slot, a.Number, a.slots = used.place, used.id, used.attempt+1, s

		err = send(ctx, &a)
		lost := isUnknown(err)
		if lost {
			err = s.db.Resolve(ctx, err, func(ctx context.Context) (applied bool, err error) {
				a.Answers, err = s.ask(ctx, used, a.Number)
				return a.Answers != nil, err
			})
		}

		// A slot that may hold this attempt already, or may still be found by the lost group, is not used again: its answers
		// would be taken for the next group's.
		if !lost && (err == nil || untouched(err)) {
			s.put(used, err == nil)
		}
		if s.shards != nil && sqldb.SQLState(err) == notDistributable { // a shard was split
			s.shards.Forget()
		}

		again := lost && !isUnknown(err) || errors.Is(err, ErrNoSlot)
		switch {
		case err == nil:
			return a.Answers, nil
		case !again, sends == maxSends:
			return nil, err
		}
	}
}

// isUnknown reports whether err is the database's and says that the change may have been made.
func isUnknown(err error) bool {
	outcome, ours := sqldb.OutcomeOf(err)
	return ours && outcome == sqldb.Unknown
}

// untouched reports whether err leaves no doubt that the slot is as it was: the sender has decided so, the server has
// refused the change, or no connection was free for it. An error of another kind, such as of an answer that cannot be
// decoded, may come after a statement has committed.
func untouched(err error) bool {
	if errors.Is(err, ErrSplit) {
		return true
	}
	e := sqldb.Classify(err, true)
	return e != nil && e.Outcome == sqldb.NotApplied && (e.SQLState != "" || e.Reason == sqldb.Overloaded)
}

const askSQL = `
SELECT CASE WHEN attempt = $2 THEN answers END
  FROM %s
 WHERE id = $1 AND attempt <= $2%s`

// ask returns the answers that an attempt has stored, or nil when it has changed nothing and never will. A slot that
// was deleted proves nothing: then it returns sql.ErrNoRows.
func (s *Slots) ask(ctx context.Context, used *slot, attempt int64) (answers []byte, err error) {
	query := fmt.Sprintf(askSQL, s.table, s.ofPlace(3))
	err = s.db.Repeatable().GetContext(ctx, &answers, query, s.placed(used.place, used.id, attempt)...)
	return answers, err
}
