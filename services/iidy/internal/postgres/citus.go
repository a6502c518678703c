package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// listsKnown bounds the lists whose shard is remembered: 20 MB at most.
const listsKnown = 10_000

// onShards groups the calls of one kind by the shard of their list.
type onShards struct {
	*coalesce.Sharded[key, key, int64]

	shards *sqldb.Shards
}

// placesOnShards returns how many groups of one kind run at once: two for one worker, of which one may wait for a
// locked row, and one for another, where COALESCE_IN_FLIGHT and the pool allow no more.
func placesOnShards(o Options) int {
	const share = 2 * GroupConns // together the kinds use half of the pool
	return max(2*o.InFlight, o.MaxOpenConns/share, 3)
}

// Do implements grouped.
func (s onShards) Do(ctx context.Context, k key) (int64, error) {
	shards, err := s.shards.Of(ctx, []string{k.list})
	if err != nil {
		return 0, err
	}
	return s.Sharded.Do(ctx, shards[0], k)
}

// slot names the row that proves on Citus that a transaction was applied. It is on the shard of the transaction.
type slot struct {
	list string
	id   uuid.UUID
}

// newSlot returns a slot on the shard of a list, and none where transactions need none.
func newSlot(db *sqldb.DB, list string) slot {
	if db.Cluster() != sqldb.ClusterCitus {
		return slot{}
	}
	return slot{list, uuid.Must(uuid.NewV7())}
}

// slotTTL is for how long a slot is kept after the longest time that its transaction may take.
const slotTTL = 10 * time.Minute

var errSlotGone = errors.New("iidy: the slot of the lost transaction has expired")

// inTxFunc is a part of a transaction.
type inTxFunc func(ctx context.Context, tx *sqlx.Tx) error

// inTx runs a transaction that changes rows of one shard, and looks up the outcome of a COMMIT whose reply was lost.
// limit bounds the time that it takes. prepare, if there is one, runs before fn and the slot, which begins the
// transaction on the worker.
func inTx(
	ctx context.Context, db *sqldb.DB, s slot, limit time.Duration, prepare, fn inTxFunc, options ...sqldb.TxOption,
) error {
	onCitus, begin := db.Cluster() == sqldb.ClusterCitus, time.Now()
	write := func(ctx context.Context, tx *sqlx.Tx) error {
		if prepare != nil {
			if err := prepare(ctx, tx); err != nil {
				return err
			}
		}
		if onCitus {
			if _, err := tx.ExecContext(ctx, newSlotSQL, s.list, s.id, kept(limit)); err != nil {
				return err
			}
		}
		return fn(ctx, tx)
	}
	if !onCitus {
		return db.InTx(ctx, write, append(options, sqldb.ResolveOutcome())...)
	}
	return db.InTx(ctx, write, append(options, sqldb.ResolveBy(func(ctx context.Context) (bool, error) {
		return lookUp(ctx, db, s, begin, limit)
	}))...)
}

// kept returns for how many microseconds a slot is kept.
func kept(limit time.Duration) int64 { return (limit + slotTTL).Microseconds() }

// lookUp returns whether the transaction of a slot was applied, which began at this time at the earliest. It waits for
// one in progress.
func lookUp(ctx context.Context, db *sqldb.DB, s slot, begin time.Time, limit time.Duration) (applied bool, err error) {
	if sqldb.Age(begin) > limit+slotTTL/2 { // it may have been deleted
		return false, errSlotGone
	}
	err = db.GetUnqueued(ctx, &applied, resolveSlotSQL, s.list, s.id, kept(limit))
	return applied, err
}

// deleteBatch is how many slots are asked for at a time.
const deleteBatch = 1000

// DeleteExpiredSlots deletes the rows that have proved outcomes for long enough, in batches, a statement for each
// shard. There are none on one server.
func (s *Store) DeleteExpiredSlots(ctx context.Context) error {
	if !s.onCitus() {
		return nil
	}
	for {
		var expired []struct {
			List string `db:"list"`
			ID   string `db:"id"`
		}
		if err := s.queue.db.SelectUnqueued(ctx, &expired, expiredSlotsSQL, deleteBatch); err != nil {
			return err
		}
		lists, ids := make([]string, len(expired)), make([]string, len(expired))
		for i, e := range expired {
			lists[i], ids[i] = e.List, e.ID
		}
		n, err := s.coalescers.shards.Delete(ctx, deleteSlotsSQL, lists, ids)
		if err != nil || len(expired) < deleteBatch || n == 0 { // what is locked is left to the next run
			return err
		}
	}
}

func (s *Store) onCitus() bool { return s.queue.db.Cluster() == sqldb.ClusterCitus }

// changeOnShard runs the statement of a group, whose lists are on one shard, in a transaction that proves its outcome.
func (c *coalescers) changeOnShard(
	ctx context.Context, change attempt.Change, p coalesce.Pass, g group, found *result,
) error {
	keys := slices.SortedFunc(slices.Values(g.keys), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.item, b.item))
	})
	var options []sqldb.TxOption
	if !p.SkipLocked {
		options = append(options, sqldb.WithLockTimeout(p.Wait))
	}
	err := inTx(ctx, c.db, newSlot(c.db, keys[0].list), 0, nil, func(ctx context.Context, tx *sqlx.Tx) error {
		*found = result{items: make([]changed, 0, len(keys))} // the transaction may be run again
		if change == attempt.Add {
			return addInParts(ctx, tx, keys, found)
		}
		lists, items := arrays(keys)
		times := make(pq.Int64Array, len(keys))
		for n, k := range keys {
			times[n] = int64(len(g.calls[k]))
		}
		return found.read(tx.QueryContext(ctx, groupOnShardSQL(change, p.SkipLocked), lists, items, times))
	}, options...)
	if sqldb.SQLState(err) == stateNotSupported { // the shard was split, and a group spans both parts
		c.shards.Forget()
	}
	return err
}

const stateNotSupported = "0A000"

// maxAdded bounds the items of one statement that adds them. Fewer are filled up to a power of two, so that connections
// keep few statements.
const maxAdded = 256

// addInParts adds items in their order.
func addInParts(ctx context.Context, tx *sqlx.Tx, keys []key, found *result) error {
	for part := range slices.Chunk(keys, maxAdded) {
		n := 1
		for n < len(part) {
			n *= 2
		}
		args := make([]any, 0, 2*n)
		for i := range n {
			k := part[min(i, len(part)-1)]
			args = append(args, k.list, k.item)
		}
		if err := found.read(tx.QueryContext(ctx, addOnShardSQL(n), args...)); err != nil {
			return err
		}
	}
	return nil
}

// changeBatchOnShard applies a batch, of which lines has each item once.
func changeBatchOnShard(
	ctx context.Context, tx *sqlx.Tx, proof slot, change attempt.Change, lines string, claim attempt.Claim,
) (int64, error) {
	if change == attempt.Add {
		return execute(ctx, tx, addBatchOnShardSQL, proof.list, lines, proof.id)
	}
	return count(ctx, tx, batchOnShardSQL(change), proof.list, lines, string(claim))
}

// changeStagedOnShard applies the items of the temporary table, which is the coordinator's, part by part in byte order:
// so the transaction locks rows in the order in which one statement would.
func changeStagedOnShard(
	ctx context.Context, tx *sqlx.Tx, proof slot, change attempt.Change, claim attempt.Claim,
) (total int64, err error) {
	if _, err := execute(ctx, tx, readStagedSQL); err != nil {
		return 0, err
	}
	for {
		var items []attempt.Item
		if err := tx.SelectContext(ctx, &items, fetchStagedSQL); err != nil || len(items) == 0 {
			return total, err
		}
		n, err := changeBatchOnShard(ctx, tx, proof, change, attempt.ItemsOf(items...).Lines(), claim)
		if err != nil {
			return 0, err
		}
		total += n
	}
}
