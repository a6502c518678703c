package groupcommit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Slots are the rows of the table slots(id, attempt, answers, used_at) in a schema, that a replica has made for its
// groups. A group in flight has one to itself. The group's commit writes the attempt and the answers, and it changes
// nothing when the slot does not hold the attempt before. So the slot proves an outcome:
//
//   - it holds the attempt, with answers: the group has committed, and these are the answers;
//   - it holds an earlier attempt: the look-up takes the attempt, with answers NULL, and the group, if it still
//     arrives, finds no slot and never commits. The look-up waits for a session that is about to commit, because it
//     needs the lock of the row;
//   - it holds the attempt with answers NULL: an earlier look-up has taken it;
//   - there is no row: it was deleted, and the outcome is unknown.
//
// The look-up writes in every case, so that a synchronous standby, if there is one, has what is answered. No id of a
// transaction and no history of the server is needed, so this holds behind a pooler, and on a promoted synchronous
// standby. After an asynchronous one is promoted nothing holds: see docs/high-availability.md.
//
// On a Citus cluster each shard has slots of its own, and At chooses the shard: see [Beside].
//
// A nil Slots, of MySQL, gives slots that prove nothing.
type Slots struct {
	*slotTable

	place string // of At
}

// slotTable is what the slots of all places have in common.
type slotTable struct {
	db       *sqldb.DB
	ttl      time.Duration
	table    string
	storeSQL string        // of this table
	beside   string        // the table of Beside; empty: the slots have no place
	shards   *sqldb.Shards // nil on one server

	mu   sync.Mutex
	free map[int64][]*slot // by shard
}

// slot is one row of the table. One group uses it at a time.
type slot struct {
	shard   int64
	place   string
	id      string
	attempt int64 // the last one that is known to be committed
	made    time.Time
}

const (
	// maxAttempts retires a slot: while an old snapshot keeps its dead versions, each attempt costs more. One UPDATE went
	// from 0.13 to 0.94 ms in 68,000 attempts (PostgreSQL 15, 2 cores).
	maxAttempts = 5000
	// slotGrace is what a slot outlives the longest change by, for look-ups that a suspended machine delays.
	slotGrace = 5 * time.Minute
	// deleteAtOnce bounds the rows of one DELETE.
	deleteAtOnce = 500
)

// SlotOption says what a service's slots are like.
type SlotOption func(*slotTable)

// Beside says that the slots have a column place, which is the first one of their primary key, and that a Citus cluster
// distributes them by it, colocated with another table, given with its schema. A slot's place is then a value of that
// table's distribution column, so that the slot is on the shard of what it proves. On one server it is empty.
func Beside(table string) SlotOption { return func(s *slotTable) { s.beside = table } }

// NewSlots returns the slots of a replica in the table slots of a schema. longest is the longest time for which a
// change may be under way: a slot lives twice as long, and ten minutes.
func NewSlots(db *sqldb.DB, schema string, longest time.Duration, options ...SlotOption) *Slots {
	s := &slotTable{
		db: db, ttl: 2 * (longest + slotGrace), table: schema + ".slots", free: make(map[int64][]*slot),
	}
	for _, option := range options {
		option(s)
	}

	s.storeSQL = fmt.Sprintf(storeSQL, s.table, s.ofPlace(4))
	if s.beside != "" && db.Cluster() == sqldb.ClusterCitus {
		s.shards = sqldb.NewShards(db, s.beside, placesKnown)
	}
	return &Slots{slotTable: s}
}

// attempt returns the next attempt of a slot.
func (s *Slots) attempt(used *slot, pass Attempt) Attempt {
	if s != nil {
		pass.Place, pass.Slot, pass.Number, pass.slots = used.place, used.id, used.attempt+1, s
	}
	return pass
}

// On Citus no statement that changes rows may read the clock itself.
const (
	makeSQL = `
INSERT INTO %s AS s (id, attempt, used_at)
VALUES ($1, 0, statement_timestamp())
    ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at
RETURNING s.attempt`

	makePlacedSQL = `
INSERT INTO %s AS s (id, attempt, used_at, place)
VALUES ($1, 0, statement_timestamp(), $2)
    ON CONFLICT (place, id) DO UPDATE SET used_at = excluded.used_at
RETURNING s.attempt`
)

// take returns a slot that no group uses, and makes one if there is none. Its errors are NotApplied: no group was sent.
func (s *Slots) take(ctx context.Context) (*slot, error) {
	if s == nil {
		return new(slot), nil
	}
	shard, err := s.shardOf(ctx, s.place)
	if err != nil {
		return nil, err
	}
	if found := s.pop(shard.ID); found != nil {
		return found, nil
	}

	query := makeSQL
	if s.beside != "" {
		query = makePlacedSQL
	}
	made := &slot{shard: shard.ID, place: s.place, id: uuid.Must(uuid.NewV7()).String(), made: time.Now()}
	err = s.db.Repeatable().GetContext(ctx, &made.attempt, fmt.Sprintf(query, s.table), s.placed(made.place, made.id)...)
	if err != nil {
		return nil, sqldb.AsNotApplied(err) // a slot alone is no change
	}
	return made, nil
}

// pop returns a free slot of a shard, or nil. The one that was used last comes first, so that a replica that is asked
// little keeps one in use and lets the others grow old.
func (s *Slots) pop(shard int64) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()

	for free := s.free[shard]; len(free) > 0; {
		last := free[len(free)-1]
		free = free[:len(free)-1]
		s.free[shard] = free
		if last.attempt < maxAttempts && sqldb.Age(last.made) < s.ttl/2 {
			return last
		}
	}
	return nil
}

// put returns a slot whose last attempt is known to be committed, or to have changed nothing.
func (s *Slots) put(used *slot) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[used.shard] = append(s.free[used.shard], used)
}

// Run deletes unused slots, also those that dead replicas have left, until ctx ends. Every
// replica runs it: they share the work by SKIP LOCKED. A round that fails is logged, and the next one deletes the rest.
func (s *Slots) Run(ctx context.Context, log *slog.Logger) error {
	for {
		select {
		case <-time.After(s.ttl/4 + rand.N(s.ttl/4)):
		case <-ctx.Done():
			return nil
		}
		if err := s.cleanAll(ctx); err != nil && ctx.Err() == nil { // otherwise the process is stopping
			log.WarnContext(ctx, "old slots could not be deleted", slog.Any("error", err))
		}
	}
}

const deleteSQL = `
WITH gone AS (
    DELETE FROM %[1]s
     WHERE id = ANY (ARRAY(SELECT id FROM %[1]s
                            WHERE used_at < clock_timestamp() - $1 * interval '1 microsecond'
                            LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone`

// cleanAll deletes the slots that have not been used for longer than their time to live.
func (s *Slots) cleanAll(ctx context.Context) error {
	if s.shards != nil {
		return s.cleanShards(ctx)
	}

	query := fmt.Sprintf(deleteSQL, s.table)
	for n := deleteAtOnce; n == deleteAtOnce; {
		if err := s.db.Repeatable().GetContext(ctx, &n, query, s.ttl.Microseconds(), deleteAtOnce); err != nil {
			return err
		}
	}
	return nil
}
