package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// slot holds the outcome of the last statement that used it, on the shard of its item. One statement uses it at a time,
// each with the next attempt.
type slot struct {
	item    string
	id      uuid.UUID
	attempt int64 // of the statement that uses it
	made    time.Time
}

// slots keeps the slots that no statement uses, by shard.
type slots struct {
	mu   sync.Mutex
	free map[int64][]*slot
}

// errSlotGone says that a slot has been deleted, so that its absence proves nothing.
var errSlotGone = errors.New("counts: the slot of the lost statement is gone")

// takeSlot returns a slot on an item's shard. Its errors are NotApplied.
func (s *Store) takeSlot(ctx context.Context, item string) (*slot, int64, error) {
	shards, err := s.shards.Of(ctx, []string{item})
	if err != nil {
		return nil, 0, err
	}
	if found := s.slots.pop(shards[0].ID, s.journalTTL/2); found != nil {
		found.attempt++
		return found, shards[0].ID, nil
	}
	made := &slot{item: item, id: uuid.Must(uuid.NewV7()), made: time.Now()}
	err = s.db.GetUnqueued(ctx, &made.attempt, newSlotSQL, made.item, made.id, s.journalTTL.Microseconds())
	if err != nil {
		return nil, 0, notApplied(err) // a slot alone changes no count
	}
	made.attempt++
	return made, shards[0].ID, nil
}

// pop returns a free slot that is younger than oldest, or nil.
func (s *slots) pop(shard int64, oldest time.Duration) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.free[shard]) > 0 {
		last := len(s.free[shard]) - 1
		found := s.free[shard][last]
		s.free[shard] = s.free[shard][:last]
		if sqldb.Age(found.made) < oldest {
			return found
		}
	}
	return nil
}

func (s *slots) push(shard int64, used *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == nil {
		s.free = make(map[int64][]*slot)
	}
	s.free[shard] = append(s.free[shard], used)
}

// maxSends bounds how often a statement is sent whose answers get lost and which is then found not to be applied: it
// may be the statement that breaks the server.
const maxSends = 3

// onceOnShard is once for a statement on the shard of an item. send reports whether the statement found its slot. A
// slot whose statement failed is not used again: that may arrive late.
func (s *Store) onceOnShard(
	ctx context.Context, item string, send func(ctx context.Context, conn *sqlx.Conn, slot *slot) (ready bool, err error),
) (stored nullInts, err error) {
	for sends := 1; ; sends++ {
		used, shard, err := s.takeSlot(ctx, item)
		if err != nil {
			return nil, err
		}
		lost := false
		err = s.db.OnceResolved(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			ready, err := send(ctx, conn, used)
			if err == nil && !ready { // an earlier sending of this statement has taken the attempt
				return &sqldb.Error{Outcome: sqldb.Unknown, Reason: sqldb.Other}
			}
			return err
		}, func(ctx context.Context) (applied bool, err error) {
			lost, stored = true, nil
			err = s.db.GetUnqueued(ctx, &stored, resolveSlotSQL, used.item, used.id, used.attempt)
			if errors.Is(err, sql.ErrNoRows) {
				err = errSlotGone
			}
			return stored != nil, err
		})
		if err == nil && !lost || !lost && sqldb.LockTimedOut(err) {
			s.slots.push(shard, used)
		}
		if sqldb.SQLState(err) == stateNotSupported { // the shard was split, and a group spans both parts
			s.shards.Forget()
		}
		if outcome, _ := sqldb.OutcomeOf(err); err == nil || !lost || outcome == sqldb.Unknown || sends == maxSends {
			return stored, err
		}
	}
}

const stateNotSupported = "0A000"

// notApplied returns the error of a statement that changes no count as one that says so.
func notApplied(err error) error {
	if e, ours := errors.AsType[*sqldb.Error](err); ours {
		none := *e
		none.Outcome = sqldb.NotApplied
		return &none
	}
	return err
}

// deleteOnShards is DeleteExpired: slots, of which there are few, stand for the journal, and keys of items for keys.
func (s *Store) deleteOnShards(ctx context.Context, table string, deleted func(n int)) error {
	if table == Keys {
		return s.deleteItemKeys(ctx, deleted)
	}
	var n int
	if err := s.db.GetUnqueued(ctx, &n, deleteSlotsSQL); err != nil {
		return err
	}
	deleted(n)
	return nil
}
