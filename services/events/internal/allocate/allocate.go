// Package allocate gathers new events into groups, for both stores. A group of k events takes its k ids from status at
// once and shares one transaction, so that no event waits for a commit of its own. Its callers get the ids that they
// would have got one by one.
package allocate

import (
	"context"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

type (
	// Groups is the coalescer of new events. All wait for the one row of status, so they have one key.
	Groups = coalesce.Coalescer[struct{}, event.New, event.ID]
	// Insert stores a group in one transaction that takes the next ids in the group's order, and returns these once it
	// has committed. It waits for the row of status up to pass.Wait and then returns coalesce.ErrLockWait, as it does
	// at once when pass.SkipLocked is set.
	Insert = func(ctx context.Context, pass coalesce.Pass, group []event.New) ([]coalesce.Answer[event.ID], error)
)

const (
	// overheadBytes is what an event takes on the wire beside its value.
	overheadBytes = 32
	// statements is how many of a group may take all of StatementTimeout: the lock and the insert. A group that is cut
	// off before COMMIT was not applied.
	statements = 2
)

// NewGroups returns the coalescer of a store whose groups insert stores.
func NewGroups(insert Insert, limits coalesce.Limits) (*Groups, error) {
	return coalesce.New(coalesce.Config[struct{}, event.New, event.ID]{
		Name:       "events_add",
		Key:        func(event.New) struct{} { return struct{}{} },
		Size:       func(n event.New) int { return len(n.Value) + overheadBytes },
		Run:        insert,
		Statements: statements,
		Limits:     limits,
	})
}

// Answers returns the ids of a group of n events of which the last one has the id last.
func Answers(last int64, n int) []coalesce.Answer[event.ID] {
	answers := make([]coalesce.Answer[event.ID], n)
	for i := range answers {
		answers[i].Value = event.ID(last - int64(n-1-i))
	}
	return answers
}
