package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

// The statements whose plans are tested.
const (
	PageSQL  = pageSQL
	LongHead = longHead
)

// ClaimSQL returns the statement of a claim.
func ClaimSQL() string { return textsOf(false).claim }

// ExtendSQL returns the statement that extends a claim.
func ExtendSQL() string { return textsOf(false).extend }

// SentSQL returns the statement of a batch that is sent with its items.
func SentSQL(change attempt.Change) string { return textsOf(false).batch[change] }

// Kept returns the statements that connections keep prepared, with the number of their parameters.
func Kept() map[string]int {
	t, isTrue := textsOf(false), func(condition string) string { return "(" + condition + ") IS TRUE" }
	kept := map[string]int{
		t.get: 3, existsSQL: 1, pageSQL: 4, countsSQL: 1, t.claim: 6, t.extend: 3, t.release: 2, t.abandon: 3,
		addSentSQL + inOrderSQL: 2, addSentSQL + inOrderSQL + unlessThereSQL: 2, groupSQL(attempt.Add, false, isTrue): 7,
		oneSQL(attempt.Add): 8, oneSQL(attempt.Increment): 9, oneSQL(attempt.Delete): 8,
	}
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		kept[t.batch[change]], kept[groupSQL(change, false, isTrue)], kept[groupSQL(change, true, isTrue)] = 3, 8, 8
	}
	return kept
}

// CitusStatements returns what is sent to a cluster in one statement, with its arguments.
func CitusStatements(list attempt.List, claim attempt.Claim) map[string][]any {
	itself := func(condition string) string { return condition }
	t, lists, items := textsOf(true), pq.StringArray{string(list)}, pq.StringArray{"a"}
	group := []any{uuid.NewString(), 1, "50ms", string(list), lists, items, pq.Int64Array{1}, lists}
	statements := map[string][]any{
		t.get:     {lists, items, lists},
		t.claim:   {string(list), "", 10, 1, longHead, 1 << 20},
		t.extend:  {string(list), string(claim), 1},
		t.release: {string(list), string(claim)},
		t.abandon: {string(list), string(claim), 1},
	}
	for _, change := range []attempt.Change{attempt.Increment, attempt.Delete} {
		statements[t.batch[change]] = []any{string(list), string(claim), "a\nb"}
		one := append(slices.Clone(group[:4]), string(list), "a", "[1]", "[0]")
		if change == attempt.Increment {
			one = append(one, 1)
		}
		statements[oneSQL(change)], statements[groupSQL(change, false, itself)] = one, group
		statements[groupSQL(change, true, itself)] = group
	}
	return statements
}

// RunGroup sends a group, which waits for locks, in a new slot, and returns how many items it changed.
func (s *Store) RunGroup(
	ctx context.Context, change attempt.Change, list attempt.List, items ...attempt.Item,
) (n int64, err error) {
	send, named := s.text.send[change], []key(nil)
	for _, item := range items {
		named = append(named, key{string(list), string(item)})
	}

	a := groupcommit.Attempt{Place: string(list), Slot: uuid.NewString(), Number: 1, LockWait: time.Minute}
	err = s.db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		const slot = `INSERT INTO iidy.slots (place, id, attempt, used_at) VALUES ($1, $2, 0, now())`
		if _, err := tx.ExecContext(ctx, slot, a.Place, a.Slot); err != nil {
			return err
		}
		return send(ctx, tx, &a, named)
	})
	if err != nil {
		return 0, err
	}

	var answers []int64
	err = json.Unmarshal(a.Answers, &answers)
	for _, one := range answers {
		n += one
	}
	return n, err
}

// What a test of the budget needs.
const (
	SmallAnswer  = smallAnswer
	AnswerBudget = answerBudget
	MaxEntry     = maxEntry
)

// Budget is a budget.
type Budget struct{ *budget }

// NewBudget returns a budget.
func NewBudget(requests, running int, m *metrics.Metrics) Budget {
	return Budget{newBudget(requests, running, m)}
}

// Read calls read.
func (b Budget) Read(ctx context.Context, count int, send func(limit int) (int, error)) (free func(), err error) {
	return b.read(ctx, count, send)
}

// Waited reports whether a caller waits for bytes.
func (b Budget) Waited() bool { return !b.bytes.TryAcquire(0) }

// UploadMayWait reports whether one more upload may wait for a long one, or for a locked item.
func (s *Store) UploadMayWait() bool {
	free := s.queue.uploads.TryAcquire(1)
	if free {
		s.queue.uploads.Release(1)
	}
	return free
}

// Budget returns the store's.
func (s *Store) Budget() Budget { return Budget{s.answers} }
