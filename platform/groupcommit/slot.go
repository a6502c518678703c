package groupcommit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
// The look-up writes in every case, so that a synchronous standby, if there is one, has every answer. No id of a
// transaction and no history of the server is needed, so this holds behind a pooler, and on a promoted synchronous
// standby. After an asynchronous one is promoted nothing holds: see docs/high-availability.md.
//
// On a Citus cluster each shard has its slots: see [Beside].
//
// Nil Slots, of MySQL, prove nothing.
type Slots struct {
	db       *sqldb.DB
	ttl      time.Duration
	table    string
	makeSQL  string // of this table, as the next
	storeSQL string
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
	// slotGrace is added to the longest change in a slot's time to live, for look-ups that a suspended machine delays.
	slotGrace = 5 * time.Minute
	// placesKnown bounds the places whose shard is remembered: 20 MB at most.
	placesKnown = 10_000
	// notDistributable is Citus' SQLSTATE for a statement that needs several shards.
	notDistributable = "0A000"
	// deleteAtOnce bounds the rows of one DELETE.
	deleteAtOnce = 500
)

// SlotOption configures a service's slots.
type SlotOption func(*Slots)

// Beside says that the slots have a column place, which is the first one of their primary key, and that a Citus cluster
// distributes them by it, colocated with another table, given with its schema. A slot's place is then a value of that
// table's distribution column, so that the slot is on the shard of the rows whose change it proves. On one server it is
// empty.
func Beside(table string) SlotOption { return func(s *Slots) { s.beside = table } }

// NewSlots returns the slots of a replica in the table slots of a schema. longest is the longest time for which a
// change may be under way: a slot lives twice as long, and ten minutes.
func NewSlots(db *sqldb.DB, schema string, longest time.Duration, options ...SlotOption) *Slots {
	s := &Slots{
		db: db, ttl: 2 * (longest + slotGrace), table: schema + ".slots", free: make(map[int64][]*slot),
	}
	for _, option := range options {
		option(s)
	}

	s.makeSQL, s.storeSQL = fmt.Sprintf(makeSQL, s.table, "", "", ""), fmt.Sprintf(storeSQL, s.table, s.ofPlace(4))
	if s.beside != "" {
		s.makeSQL = fmt.Sprintf(makeSQL, s.table, ", place", ", $2", "place, ")
	}
	if s.beside != "" && db.Cluster() == sqldb.ClusterCitus {
		s.shards = sqldb.NewShards(db, s.beside, placesKnown)
	}
	return s
}

// distributed reports whether each shard has slots, and so a committer for them.
func (s *Slots) distributed() bool { return s != nil && s.shards != nil }

// shardOf returns the shard of a place; there is one on one server. Its errors are NotApplied.
func (s *Slots) shardOf(ctx context.Context, place string) (sqldb.Shard, error) {
	if s.shards == nil {
		return sqldb.Shard{}, nil
	}
	shards, err := s.shards.Of(ctx, []string{place})
	if err != nil {
		return sqldb.Shard{}, err
	}
	return shards[0], nil
}

// ofPlace returns the condition that a slot is of the place in a parameter, where the slots have one.
func (s *Slots) ofPlace(parameter int) string {
	if s.beside == "" {
		return ""
	}
	return fmt.Sprintf(" AND place = $%d", parameter)
}

// placed returns the parameters of a statement for a slot: its place is the last one, where it has one.
func (s *Slots) placed(place string, args ...any) []any {
	if s.beside == "" {
		return args
	}
	return append(args, place)
}

// makeSQL makes a slot. On Citus no statement that changes rows may read the clock itself.
const makeSQL = `
INSERT INTO %s AS s (id, attempt, used_at%s)
VALUES ($1, 0, statement_timestamp()%s)
    ON CONFLICT (%sid) DO UPDATE SET used_at = excluded.used_at
RETURNING s.attempt`

// take returns a slot of a place's shard that no group uses, and makes one if there is none. Its errors are NotApplied:
// no group was sent.
func (s *Slots) take(ctx context.Context, place string) (*slot, error) {
	shard, err := s.shardOf(ctx, place)
	if err != nil {
		return nil, err
	}
	if found := s.pop(shard.ID); found != nil {
		return found, nil
	}

	if s.shards == nil {
		place = ""
	}
	made := &slot{shard: shard.ID, place: place, id: uuid.Must(uuid.NewV7()).String(), made: time.Now()}
	err = s.db.Repeatable().GetContext(ctx, &made.attempt, s.makeSQL, s.placed(made.place, made.id)...)
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

// put returns a slot whose last attempt is known to be committed, or else to have changed nothing.
func (s *Slots) put(used *slot, committed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if committed {
		used.attempt++
	}
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

const (
	deleteSQL = `
WITH gone AS (
    DELETE FROM %[1]s
     WHERE id = ANY (ARRAY(SELECT id FROM %[1]s
                            WHERE used_at < clock_timestamp() - $1 * interval '1 microsecond'
                            LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone`

	oldSQL = `
SELECT place, id
  FROM %[1]s
 WHERE used_at < statement_timestamp() - %[2]d * interval '1 microsecond'
 LIMIT %[3]d`

	deletePlacedSQL = `
WITH old AS MATERIALIZED (
    SELECT s.place, s.id
      FROM unnest($1::text[], $2::uuid[]) AS a (place, id)
      JOIN %[1]s s ON s.place = a.place AND s.id = a.id
     WHERE s.place = ANY ($1)
       AND s.used_at < statement_timestamp() - %[2]d * interval '1 microsecond'
       FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM %[1]s s
     USING old o
     WHERE s.place = ANY ($1)
       AND s.place = o.place
       AND s.id = o.id
    RETURNING 1
)
SELECT count(*) FROM gone`
)

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

// cleanShards is cleanAll where each shard has slots: one statement cannot skip locked rows of several.
func (s *Slots) cleanShards(ctx context.Context) error {
	ttl := s.ttl.Microseconds()
	for {
		var old []struct {
			Place string `db:"place"`
			ID    string `db:"id"`
		}
		if err := s.db.Repeatable().SelectContext(ctx, &old, fmt.Sprintf(oldSQL, s.table, ttl, deleteAtOnce)); err != nil {
			return err
		}
		places, ids := make([]string, len(old)), make([]string, len(old))
		for i, o := range old {
			places[i], ids[i] = o.Place, o.ID
		}

		n, err := s.shards.Delete(ctx, fmt.Sprintf(deletePlacedSQL, s.table, ttl), places, ids)
		if err != nil || len(old) < deleteAtOnce || n == 0 { // the next round deletes locked ones
			return err
		}
	}
}

// Session sends the statements of Send: sqldb's Once, or a transaction.
type Session interface {
	// ExecContext sends a statement that returns no rows.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// GetContext scans the first row into dest, as sqlx does. No row is sql.ErrNoRows.
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	// SelectContext scans all rows into the slice at dest, as sqlx does.
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Attempt is one sending of a group.
type Attempt struct {
	// LockWait is the lock_timeout of the statements.
	LockWait time.Duration
	// SkipLocked asks to leave the rows that are locked unchanged, with the answer null to their requests. A locked row
	// must never be mistaken for a missing one. It is set only where a group has several keys, or several lanes wait, and
	// for each group that first needs leases.
	SkipLocked bool
	// Lease is the token that [Lease.Take] has returned for the group.
	Lease any
	// Slot names the slot, with Place where the slots have one, and Number the attempt that this sending takes. A
	// transaction calls Store, or updates the slot in its own last statement, after Encode. A single statement locks the
	// slot's row, which must hold Number - 1, before it changes anything, and gives it Number, Answers and the clock's
	// time. Where there is no such row, it changes nothing, and Send returns ErrNoSlot.
	Place  string
	Slot   string
	Number int64

	// Answers is set by Send to the answers that the slot has stored: a JSON array with one element for each request of
	// the group, in the group's order, that an R is decoded from. An element null says that the request's row is
	// locked, or that its key is held in another way, such as by a claim: the request waits in the lane of its key.
	Answers []byte
	// Again says that an earlier sending of the group may have been applied. Only Repeat sees it.
	Again bool
	// Waited is set by Send and Repeat to the time for which the statements waited for locked rows.
	Waited time.Duration

	slots *Slots // nil on MySQL
}

const storeSQL = `
UPDATE %s
   SET attempt = $2, answers = $3, used_at = statement_timestamp()
 WHERE id = $1 AND attempt = $2 - 1%s`

// Store encodes the answers, one for each request, and writes them into the slot, as the last statement of a
// transaction. It returns ErrNoSlot, upon which Send must return it and nothing is committed, when the slot does not
// hold the attempt before.
func (a *Attempt) Store(ctx context.Context, s Session, answers any) error {
	if err := a.Encode(answers); err != nil || a.slots == nil {
		return err
	}

	result, err := s.ExecContext(ctx, a.slots.storeSQL, a.slots.placed(a.Place, a.Slot, a.Number, a.Answers)...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ErrNoSlot, err)
	}
	return nil
}

// Encode sets Answers, for a last statement of a transaction that writes the slot besides other rows.
func (a *Attempt) Encode(answers any) error {
	encoded, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("groupcommit: encode the answers: %w", err)
	}
	a.Answers = encoded
	return nil
}

// WaitedFor sets Waited to a time in seconds, unless it is longer already.
func (a *Attempt) WaitedFor(seconds float64) {
	a.Waited = max(a.Waited, time.Duration(seconds*float64(time.Second)))
}

// LockSlotSQL ends the first CTE, slot, of a statement for Run, after WHERE. It locks the slot, and finds none that
// does not hold the attempt before: the statement changes rows only if the CTE has one. A sub-select sets lock_timeout
// before any row is touched, which saves the round trip of a SET LOCAL.
const LockSlotSQL = `
       id = $1
       AND attempt = $2 - 1
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
       FOR UPDATE
)`

// Run sends the statement of a group that is one statement, and sets Answers and Waited. Its first three
// parameters are the slot, the number and lock_timeout, args follow. It returns one row: answers, and waited, in
// seconds. Where it returns no row Run returns ErrNoSlot.
func (a *Attempt) Run(ctx context.Context, s Session, statement string, args ...any) error {
	var row struct {
		Answers []byte  `db:"answers"`
		Waited  float64 `db:"waited"`
	}
	args = append([]any{a.Slot, a.Number, sqldb.Milliseconds(a.LockWait)}, args...)
	err := s.GetContext(ctx, &row, statement, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoSlot
	}
	if err != nil {
		return err
	}

	a.Answers = row.Answers
	a.WaitedFor(row.Waited)
	return nil
}
