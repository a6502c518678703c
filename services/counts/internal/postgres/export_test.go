package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// ChangeTogether makes changes as one group, in a pass that waits for locks or, without a wait, skips them.
func (s *Store) ChangeTogether(
	ctx context.Context, wait time.Duration, requests ...counting.Request,
) ([]*counting.Answer, error) {
	group := make([]request, len(requests))
	for i, r := range requests {
		group[i] = s.newRequest(r)
	}

	change := func(ctx context.Context, tx *sqlx.Tx, a *groupcommit.Attempt) ([]*counting.Answer, error) {
		a.LockWait, a.SkipLocked = wait, wait == 0
		return s.change(ctx, tx, a, group)
	}
	return groupcommit.Transact(ctx, s.limits.Slots, group[0].place(), change, sqldb.WithLockTimeout(wait))
}

// CitusStatements returns what is sent to a cluster, with its arguments, but for the creation of counts.
func CitusStatements() map[string][]any {
	t, ids, ints := textsOf(true), pq.StringArray{"a"}, pq.Int64Array{1}
	adds := []any{uuid.NewString(), 1, "50ms", "a", ids, ints, ints, ints, ints, ints}
	return map[string][]any{
		t.addSeveral: adds, t.addFree: adds, t.lock: {ids, false}, t.lockFree: {ids, true},
		t.write: {ids, ids, ints, time.Now(), "a", uuid.NewString(), 1, "[]"},
	}
}
