package postgres

import "github.com/rowlock/rowlock/services/iidy/internal/attempt"

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

// LongHead is for tests that need one.
const LongHead = longHead
