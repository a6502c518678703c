package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

const (
	// longHead is how many claimed rows a claim may pass at the start of a list before
	// the replica remembers where the free ones begin. Passing them takes a
	// millisecond or two.
	longHead = 2000
	// positionTTL is how long a replica remembers that: so long may an item before the
	// position that another replica has added or released, or whose lease has ended,
	// be overlooked while there are free items behind it.
	positionTTL = time.Second
)

// claimStatements are the statements of claims, and what runs them.
type claimStatements struct {
	take, extend, release, abandon string

	run, runAbandon runner
}

func claimStatementsOf(db *sqldb.DB) claimStatements {
	if db.Cluster() == sqldb.ClusterCitus {
		return claimStatements{
			claimOnShardSQL, extendOnShardSQL, releaseOnShardSQL, abandonOnShard(), count, count,
		}
	}
	return claimStatements{claimSQL, extendSQL, releaseSQL, abandonSQL, execute, executeUntilNoneMoved}
}

// position is the item from which claims look for free ones. Without it each claim of
// a list that is worked on from its start walks over all that is claimed, and a list
// of n items costs n² steps; an index of the free items would cost every add.
type position struct {
	item  string
	until time.Time
}

// taken is a row of claimSQL.
type taken struct {
	Claim   string    `db:"claim"`
	Until   time.Time `db:"until"`
	Size    int       `db:"size"` // of the entries to claim, at most; when it is too large there are none
	First   string    `db:"first"`
	Entries string    `db:"entries"`
	Expired int64     `db:"expired"` // the entries that were under a lease that has ended
	Passed  int64     `db:"passed"`  // the rows before the first entry
}

// Claim implements attempt.Repository. When its reply is lost the items stay claimed
// without a worker until the lease ends.
func (s *Store) Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (attempt.Lease, error) {
	var t taken
	free, err := s.answers.read(ctx, count, func(limit int) (size int, err error) {
		t, err = s.claimFree(ctx, list, count, lease, limit)
		if t.Entries != "" {
			return len(t.Entries), err
		}
		return t.Size, err
	})
	if err != nil || t.Entries == "" {
		return attempt.Lease{}, err
	}
	entries := attempt.NewEntries(t.Entries, free)
	s.metrics.Claimed(entries.Len())
	s.contention.Conflicts(contention.TakenOver, t.Expired)
	return attempt.Lease{Claim: attempt.Claim(t.Claim), Until: t.Until.UTC(), Entries: entries}, nil
}

// claimFree takes free items from the remembered position on, and from the start of the list when none is free there.
func (s *Store) claimFree(
	ctx context.Context, list attempt.List, count int, lease time.Duration, limit int,
) (t taken, err error) {
	if p, ok := s.freeFrom.get(string(list)); ok && time.Now().Before(p.until) {
		if t, err = s.claim(ctx, list, p.item, count, lease, limit); err != nil || t.Size > 0 {
			return t, err
		}
		// Nothing is free behind the position; before it there may be.
		s.freeFrom.forget(string(list))
	}
	t, err = s.claim(ctx, list, "", count, lease, limit)
	if err == nil && t.Passed > longHead {
		s.freeFrom.put(string(list), position{t.First, time.Now().Add(positionTTL)})
	}
	return t, err
}

// claim takes free items from an item on.
func (s *Store) claim(
	ctx context.Context, list attempt.List, from string, count int, lease time.Duration, limit int,
) (t taken, err error) {
	err = s.queue.once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		row := conn.QueryRowxContext(ctx, s.claims.take, string(list), from, count, lease.Microseconds(), longHead, limit)
		return row.StructScan(&t)
	})
	return t, err
}

// Extend implements attempt.Repository.
func (s *Store) Extend(
	ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration,
) (int64, error) {
	n, err := s.run(ctx, list, s.claims.extend, string(claim), lease.Microseconds())
	if err == nil {
		s.noteLost(claim, 1, n) // a claim holds at least one item while it lasts
	}
	s.metrics.Extended(n)
	return n, err
}

// Release implements attempt.Repository.
func (s *Store) Release(ctx context.Context, list attempt.List, claim attempt.Claim) (int64, error) {
	n, err := s.run(ctx, list, s.claims.release, string(claim))
	if n > 0 {
		s.freeFrom.forget(string(list))
	}
	s.metrics.Released(n)
	return n, err
}

// run runs one statement over a list in a transaction and returns the number of rows that
// it changed, 0 on an error.
func (s *Store) run(ctx context.Context, list attempt.List, query string, args ...any) (n int64, err error) {
	err = s.queue.inTurn(ctx, func(lockWait time.Duration) error {
		proof := newSlot(s.queue.db, string(list))
		return s.queue.tx(ctx, proof, lockWait, func(ctx context.Context, tx *sqlx.Tx) (err error) {
			n, err = s.claims.run(ctx, tx, query, append([]any{string(list)}, args...)...)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Abandon implements attempt.Repository. It reads the whole list, so it has the
// bounds of a long batch.
func (s *Store) Abandon(
	ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim,
) (n int64, err error) {
	proof := newSlot(s.queue.db, string(list))
	err = s.queue.inLongTx(ctx, proof, s.queue.options.LockTimeout, nil, func(
		ctx context.Context, tx *sqlx.Tx,
	) (err error) {
		n, err = s.claims.runAbandon(ctx, tx, s.claims.abandon, string(list), attempts, string(claim))
		return err
	})
	if err != nil {
		return 0, err
	}
	s.metrics.Abandoned(n)
	return n, nil
}
