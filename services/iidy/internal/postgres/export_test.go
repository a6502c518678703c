package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

// The statements whose plans are tested.
const (
	PageSQL   = pageSQL
	ClaimSQL  = claimSQL
	ExtendSQL = extendSQL
	LongHead  = longHead
)

// SentSQL returns the statement of a batch that is sent with its items.
func SentSQL(change attempt.Change) string { return batchSQL(change, sentItems) }

// Kept returns the statements that connections keep prepared, with the number of their parameters.
func Kept() map[string]int {
	kept := map[string]int{
		getGroupSQL: 2, existsSQL: 1, pageSQL: 4, countSQL: 1, claimSQL: 6, extendSQL: 3, releaseSQL: 2, abandonSQL: 3,
	}
	for _, change := range attempt.Changes() {
		kept[SentSQL(change)] = 3
		statements := itemStatementsOf(change)
		kept[statements.one], kept[statements.group], kept[statements.free] = 3, 3, 4
	}
	kept[SentSQL(attempt.Add)], kept[addNewSQL], kept[addGroupSQL] = 2, 2, 3
	kept[incrementOneSQL], kept[incrementGroupSQL] = 4, 4
	return kept
}

// AddFree runs the pass of a group of adds that leaves out locked items.
func (s *Store) AddFree(ctx context.Context, list attempt.List, items ...attempt.Item) []coalesce.Answer[int64] {
	answers, _ := s.coalescers.runChanges(ctx, attempt.Add, coalesce.Pass{SkipLocked: true}, callsOf(list, items))
	return answers
}

// RunGroup runs the statement of a group, which waits for locks, and returns how many items it changed.
func (s *Store) RunGroup(
	ctx context.Context, change attempt.Change, list attempt.List, items ...attempt.Item,
) (n int64, err error) {
	answers := make([]answer, len(items))
	err = s.coalescers.apply(ctx, change, coalesce.Pass{Wait: time.Minute}, newGroup(callsOf(list, items)), answers)
	for _, a := range answers {
		n += a.Value
	}
	return n, err
}

func callsOf(list attempt.List, items []attempt.Item) []key {
	calls := make([]key, 0, len(items))
	for _, item := range items {
		calls = append(calls, key{string(list), string(item)})
	}
	return calls
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
func NewBudget(waiting, running int, m *metrics.Metrics) Budget {
	return Budget{newBudget(waiting, running, m)}
}

// Read calls read.
func (b Budget) Read(ctx context.Context, count int, send func(limit int) (int, error)) (free func(), err error) {
	return b.read(ctx, count, send)
}

// Waiting returns how many callers wait.
func (b Budget) Waiting() int { return len(b.waiting) }

// LongWaiting returns how many uploads wait for a long transaction or a locked item.
func (s *Store) LongWaiting() int { return len(s.queue.waiting) }

// Budget returns the store's.
func (s *Store) Budget() Budget { return Budget{s.answers} }

// CreateSlots makes the table that only a distributed schema has, and NewSlotSQL writes a slot.
const (
	CreateSlots = createSlotsSQL
	NewSlotSQL  = newSlotSQL
)

// ErrSlotGone is the error of a look-up that comes too late.
var ErrSlotGone = errSlotGone

// LookUp looks up the slot of a transaction that began so long ago.
func (s *Store) LookUp(ctx context.Context, list attempt.List, id uuid.UUID, age, limit time.Duration) (bool, error) {
	return lookUp(ctx, s.queue.db, slot{string(list), id}, time.Now().Add(-age), limit)
}
