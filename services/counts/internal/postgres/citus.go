package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// shardsKnown bounds the items whose shard is remembered: some 10 MB.
const shardsKnown = 100_000

// onCitus reports whether the counts are distributed over a Citus cluster.
func (s *Store) onCitus() bool { return s.shards != nil }

// applyOnShard is Apply on a Citus cluster: the coalescer of the item's shard calls applyShardGroup with the requests
// for that shard. Changes that span shards are refused.
func (s *Store) applyOnShard(ctx context.Context, r request) (reply, error) {
	if r.update != nil && (len(r.update.Changes) > 1 || r.update.Create) {
		return reply{}, counting.ErrNotSupported
	}
	shards, err := s.shards.Of(ctx, []string{r.id})
	if err != nil {
		return reply{}, err
	}
	return s.sharded.Do(ctx, shards[0], r)
}

// applyShardGroup is applyGroup for the counts of one shard.
func (s *Store) applyShardGroup(
	ctx context.Context, pass coalesce.Pass, group []request,
) ([]coalesce.Answer[reply], error) {
	if !slices.ContainsFunc(group, func(r request) bool { return r.update != nil }) {
		return s.applyAdds(ctx, pass, group)
	}
	answers, err := s.applyUpdates(ctx, pass, group)
	for i := range answers {
		answers[i].At = 0 // a key waits in the lane of its count, which is locked before it
	}
	return answers, err
}

// addOnShard is addSeveral for counts of one shard.
func (s *Store) addOnShard(ctx context.Context, pass coalesce.Pass, sums []*itemSum) ([]result, error) {
	statement := addOnShardWaiting
	if pass.SkipLocked {
		statement = addOnShardFree
	}
	ids, deltas, lowest, highest := arrays(sums)
	var changed, held nullInts
	var locked pq.Int64Array
	var waited float64
	send := func(ctx context.Context, conn *sqlx.Conn, slot *slot) (ready bool, err error) {
		changed, held, locked = nil, nil, nil
		err = conn.QueryRowContext(ctx, statement, sqldb.Milliseconds(pass.Wait), slot.item, slot.id, slot.attempt,
			pq.StringArray(ids), pq.Int64Array(deltas), pq.Int64Array(lowest), pq.Int64Array(highest),
		).Scan(&changed, &held, &locked, &waited, &ready)
		return ready, err
	}
	stored, err := s.onceOnShard(ctx, ids[0], send)
	if stored != nil {
		return resultsStored(len(sums), stored), err
	}
	if !pass.SkipLocked {
		s.recordWait(waited, pass.Wait, err)
	}
	if err != nil {
		return make([]result, len(sums)), err
	}
	return results(len(sums), changed, held, locked), nil
}

// changeOnShard is change for setOnShardSQL and deleteOnShardSQL.
func (s *Store) changeOnShard(
	ctx context.Context, id counting.ItemID, query string, args ...any,
) (updated time.Time, err error) {
	var micros sql.NullInt64
	err = s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(lockWait time.Duration) error {
		send := func(ctx context.Context, conn *sqlx.Conn, slot *slot) (ready bool, err error) {
			all := slices.Concat([]any{sqldb.Milliseconds(lockWait), slot.item, slot.id, slot.attempt, string(id)}, args)
			err = conn.QueryRowContext(ctx, query, all...).Scan(&micros, &ready)
			return ready, err
		}
		begin := time.Now()
		stored, err := s.onceOnShard(ctx, string(id), send)
		s.lock.Waited(contention.InDatabase, time.Since(begin))
		if stored != nil {
			micros = sql.NullInt64{Int64: stored[0].value, Valid: true}
		}
		if err == nil && !micros.Valid {
			return counting.ErrNotFound
		}
		return err
	}, sqldb.LockTimedOut)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micros.Int64).UTC(), nil
}

// createOnShard is Create. A repeat of one whose outcome is unknown is answered with the count, or that it exists.
func (s *Store) createOnShard(ctx context.Context, id counting.ItemID, initial int64) (counting.CountValue, error) {
	var updated time.Time
	err := s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(time.Duration) error {
		err := s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &updated, createOnShardSQL, string(id), initial)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return counting.ErrExists
		}
		return err
	}, sqldb.LockTimedOut)
	return counting.CountValue{ItemID: id, Current: initial, UpdatedAt: updated.UTC()}, err
}
