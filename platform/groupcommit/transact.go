package groupcommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Transact makes a change that is in no group: it runs fn in a READ COMMITTED transaction whose outcome a slot
// proves, and returns the result of the run that was committed. place is the value of the changed rows in the
// distribution column, where the slots are [Beside] a table. The last statement stores the result in the slot, as JSON.
// If fn has called [Attempt.Encode], its own last statement has done so.
//
// After a COMMIT whose answer was lost the slot is asked, until ctx's deadline, and the stored result is returned. What
// surely never commits is run again, three times at most in all, as it is after a deadlock: fn must have no effects
// outside the transaction. An error of fn that is not the database's is returned unchanged, after a rollback; other
// errors are those of [sqldb.DB.InTx] and ErrNoSlot.
func Transact[R any](
	ctx context.Context, s *Slots, place string, fn func(ctx context.Context, tx *sqlx.Tx, a *Attempt) (R, error),
	options ...sqldb.Option,
) (result R, err error) {
	var refusal error // fn's own
	stored, err := s.prove(ctx, place, Attempt{}, func(ctx context.Context, a *Attempt) error {
		run := func(ctx context.Context, tx *sqlx.Tx) error {
			a.Answers = nil
			made, err := fn(ctx, tx, a)
			if err != nil || a.Answers != nil {
				return err
			}
			return a.Store(ctx, tx, made)
		}

		err := s.db.InTx(ctx, run, append(slices.Clip(options), sqldb.Proven())...)
		if _, ours := sqldb.OutcomeOf(err); err != nil && !ours && !errors.Is(err, ErrNoSlot) {
			refusal = err
			return ErrSplit // nothing was changed
		}
		return err
	})
	switch {
	case refusal != nil:
		return result, refusal
	case err != nil:
		return result, err
	}

	if err := json.Unmarshal(stored, &result); err != nil {
		return result, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return result, nil
}
