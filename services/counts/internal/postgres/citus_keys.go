package postgres

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// itemKey is a place of a key of one item.
type itemKey struct{ item, caller, key string }

// placesOf returns the places of a key.
func placesOf(item string, k counting.Key) []itemKey {
	places := []itemKey{{item, "", k.Value}}
	if k.Caller != "" {
		places = append(places, itemKey{item, k.Caller, k.Value})
	}
	return places
}

// reserve makes the rows of keys of one shard that have none, in their order, so that replicas do not deadlock. What it
// leaves behind when the statement that follows is not run is a key that no request has taken. Its errors are
// NotApplied.
func (s *Store) reserve(ctx context.Context, keys []itemKey) error {
	slices.SortFunc(keys, func(a, b itemKey) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.caller, b.caller), cmp.Compare(a.key, b.key))
	})
	// The number of rows is a power of two, by repeats of the last one, so that connections prepare few statements.
	for len(keys) < 1<<bits.Len(uint(len(keys)-1)) {
		keys = append(keys, keys[len(keys)-1])
	}
	var query strings.Builder
	query.WriteString(reserveKeysSQL)
	args := []any{s.keyTTL.Microseconds()}
	for i, k := range keys {
		if i > 0 {
			query.WriteString(", ")
		}
		query.WriteString("(")
		for _, value := range []string{k.item, k.caller, k.key} {
			args = append(args, value)
			query.WriteString("$" + strconv.Itoa(len(args)) + ", ")
		}
		query.WriteString("statement_timestamp() + $1 * interval '1 microsecond')")
	}
	query.WriteString(reserveKeysEndSQL)
	return s.db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, query.String(), args...)
		return err
	})
}

// sendOnShard is send for a statement whose counts are on one shard, and whose parts have one change each.
func (s *Store) sendOnShard(ctx context.Context, pass coalesce.Pass, st *statement) error {
	if st.alone { // the range in which it fits, for the statement to find out
		st.low[0], st.high[0] = st.parts[0].steps[0].low, st.parts[0].steps[0].high
	}
	var keys []itemKey
	for _, p := range st.parts {
		if p.keyed() {
			keys = append(keys, placesOf(p.steps[0].id, p.update.Key)...)
		}
	}
	if len(keys) > 0 {
		if err := s.reserve(ctx, keys); err != nil {
			return coalesce.Classify(notApplied(err))
		}
	}
	query, arrays := s.onShard.of(pass), st.singleArrays()
	var result nullInts
	var locked, taken pq.Int64Array
	var waited float64
	stored, err := s.onceOnShard(ctx, st.ids[0], func(ctx context.Context, conn *sqlx.Conn, slot *slot) (bool, error) {
		st.id = uuid.Must(uuid.NewV7())
		args := slices.Concat([]any{sqldb.Milliseconds(pass.Wait), slot.item, slot.id, slot.attempt}, arrays,
			[]any{s.keyTTL.Microseconds(), st.id, st.alone})
		ready := false
		err := conn.QueryRowContext(ctx, query, args...).Scan(&result, &locked, &taken, &waited, &ready)
		return ready, err
	})
	if !pass.SkipLocked && stored == nil {
		s.recordWait(waited, pass.Wait, err)
	}
	switch {
	case err != nil:
		return coalesce.Classify(err)
	case stored != nil:
		st.lookedUp(stored, pass.SkipLocked)
	default:
		st.returned(result, locked, taken)
	}
	return nil
}

// takeAndSetOnShard is takeAndSet for a count of a shard.
func (s *Store) takeAndSetOnShard(
	ctx context.Context, key counting.Key, id counting.ItemID, value int64,
) (updated nullInts, won bool, err error) {
	err = s.ungrouped.Do(ctx, string(id), s.lockTimeout, func(lockWait time.Duration) error {
		if err := s.reserve(ctx, placesOf(string(id), key)); err != nil {
			return notApplied(err)
		}
		query, begin := setKeyedOnShardSQL(), time.Now()
		stored, err := s.onceOnShard(ctx, string(id), func(
			ctx context.Context, conn *sqlx.Conn, slot *slot,
		) (ready bool, err error) {
			err = conn.QueryRowContext(ctx, query, sqldb.Milliseconds(lockWait), slot.item, slot.id,
				slot.attempt, string(id), value, key.Caller, key.Value, key.Fingerprint[:], uuid.Must(uuid.NewV7()),
				s.keyTTL.Microseconds()).Scan(&updated, &won, &ready)
			return ready, err
		})
		s.lock.Waited(contention.InDatabase, time.Since(begin))
		if stored != nil {
			updated, won = stored, true
		}
		return err
	}, sqldb.LockTimedOut)
	return updated, won && err == nil, err
}

// deleteItemKeys deletes the keys that have expired, in batches, a statement for each shard.
func (s *Store) deleteItemKeys(ctx context.Context, deleted func(n int)) error {
	for {
		var expired []struct {
			Item   string `db:"item_id"`
			Caller string `db:"caller"`
			Key    string `db:"key"`
		}
		if err := s.db.SelectUnqueued(ctx, &expired, expiredItemKeysSQL, deleteBatch); err != nil {
			return err
		}
		items, callers, keys := make([]string, len(expired)), make([]string, len(expired)), make([]string, len(expired))
		for i, e := range expired {
			items[i], callers[i], keys[i] = e.Item, e.Caller, e.Key
		}
		n, err := s.shards.Delete(ctx, deleteItemKeysSQL, items, callers, keys)
		deleted(n)
		if err != nil || len(expired) < deleteBatch || n == 0 { // what is locked is left to the next run
			return err
		}
	}
}
