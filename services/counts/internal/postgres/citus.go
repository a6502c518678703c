package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// applyOnShards is applyAdds for each shard of a group's counts, of which few at a time: every shard has a statement of
// its own, which is applied or not whatever the others are.
func (s *Store) applyOnShards(
	ctx context.Context, pass coalesce.Pass, group []request,
) ([]coalesce.Answer[reply], error) {
	ids := make([]string, len(group))
	for i, r := range group {
		ids[i] = r.id
	}
	shards, err := s.shards.Of(ctx, ids)
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	members := make(map[int64][]int)
	for i, shard := range shards {
		members[shard] = append(members[shard], i)
	}
	if len(members) == 1 {
		return s.applyAdds(ctx, pass, group)
	}
	answers := make([]coalesce.Answer[reply], len(group))
	places := make(chan struct{}, s.shardsAtOnce)
	var running sync.WaitGroup
	var panicked atomic.Pointer[any]
	for _, indexes := range members {
		places <- struct{}{}
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.CompareAndSwap(nil, &p)
				}
				<-places
			}()
			part := make([]request, len(indexes))
			for n, i := range indexes {
				part[n] = group[i]
			}
			for n, a := range s.applyOnShard(ctx, pass, part) {
				answers[indexes[n]] = a
			}
		})
	}
	running.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p) // where package coalesce recovers
	}
	return answers, nil
}

// applyOnShard applies the part of a group that is on one shard. Where a lock did not come free, it changes the counts
// that are.
func (s *Store) applyOnShard(ctx context.Context, pass coalesce.Pass, part []request) []coalesce.Answer[reply] {
	answers, err := s.applyAdds(ctx, pass, part)
	if errors.Is(err, coalesce.ErrLockWait) && !pass.SkipLocked {
		answers, err = s.applyAdds(ctx, coalesce.Pass{SkipLocked: true}, part)
	}
	switch {
	case err == nil:
		return answers
	case errors.Is(err, coalesce.ErrSplit) && len(part) > 1: // the other shards' parts are not run again
		answers = make([]coalesce.Answer[reply], 0, len(part))
		for i := range part {
			answers = append(answers, s.applyOnShard(ctx, pass, part[i:i+1])...)
		}
		return answers
	}
	answers = make([]coalesce.Answer[reply], len(part))
	for i := range answers {
		if errors.Is(err, coalesce.ErrLockWait) {
			answers[i].Locked = true
			continue
		}
		answers[i].Err = err
	}
	return answers
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
