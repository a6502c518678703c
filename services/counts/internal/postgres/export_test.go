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
) (answers []counting.Answer, err error) {
	group := make([]request, len(requests))
	for i, r := range requests {
		group[i] = s.newRequest(r)
	}

	a := &groupcommit.Attempt{LockWait: wait, SkipLocked: wait == 0}
	err = s.limits.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		answers, err = s.change(ctx, tx, a, group)
		return err
	}, sqldb.WithLockTimeout(wait))
	return answers, err
}

// CitusStatements returns what is sent to a cluster, with its arguments, but for the creation of counts.
func CitusStatements() map[string][]any {
	t, ids, ints := textsOf(true), pq.StringArray{"a"}, pq.Int64Array{1}
	adds := []any{"a", uuid.NewString(), 1, "50ms", ids, ints, ints, ints, ints, ints}
	return map[string][]any{
		t.addSeveral: adds, t.addFree: adds, t.lock: {ids, false}, t.lockFree: {ids, true},
		t.addTo: {ids, ints, time.Now()}, t.replace: {ids, ints, time.Now()}, removeCountsSQL: {ids},
	}
}
