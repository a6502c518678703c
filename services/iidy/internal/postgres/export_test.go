package postgres

import (
	"context"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// The statements whose plans the tests look at.
const (
	PageSQL   = pageSQL
	ClaimSQL  = claimSQL
	ExtendSQL = extendSQL
)

// SentSQL is the statement of a batch that was sent with its items, StagedSQL that
// of one that is staged.
func SentSQL(change attempt.Change) string   { return batchSQL(change, sentItems) }
func StagedSQL(change attempt.Change) string { return batchSQL(change, stagedItems) }

// Kept are the statements that connections keep planned, by the number of their parameters.
func Kept() map[string]int {
	kept := map[string]int{
		getGroupSQL: 2, existsSQL: 1, pageSQL: 3, progressSQL: 1, claimSQL: 5, extendSQL: 3, releaseSQL: 2, abandonSQL: 3,
	}
	for change := attempt.Add; change <= attempt.Delete; change++ {
		kept[batchSQL(change, sentItems)] = 3
		kept[groupSQL(change, false)], kept[groupSQL(change, true)] = 4, 4
	}
	kept[batchSQL(attempt.Add, sentItems)], kept[addNewSQL] = 2, 2
	return kept
}

// LongHead is for tests that need one.
const LongHead = longHead

// AddFree is the pass of a group of adds that skips what is locked.
func (s *Store) AddFree(ctx context.Context, list attempt.List, items ...attempt.Item) []coalesce.Answer[int64] {
	calls := make([]key, 0, len(items))
	for _, item := range items {
		calls = append(calls, key{string(list), string(item)})
	}
	answers := make([]coalesce.Answer[int64], len(calls))
	patience := maxPatience
	s.addFree(ctx, newGroup(calls), answers, &patience)
	return answers
}
