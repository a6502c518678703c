// Package allocate gathers new events into groups, for both stores. A group of k events takes its k ids from status at
// once and shares one transaction, so that no event waits for a commit of its own. Its callers get the ids that they
// would have got one by one.
package allocate

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/internal/event"
)

// Options are the bounds of group commit; see coalesce.Config.
type Options struct {
	InFlight         int           // groups at once; 0 means 1
	Queue            int           // waiting events at most; 0 means 1024
	LockTimeout      time.Duration // how long an event waits for the row of status
	StatementTimeout time.Duration // how long one statement of a group may take
	Contention       *contention.Metrics
	TracerProvider   trace.TracerProvider
}

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
	// statements is how many statements of a group may take all of StatementTimeout: the lock and the insert. A group
	// that is cut off before COMMIT was not applied.
	statements = 2
	// statementGrace lets the server's own timeouts end a statement first: its answer is definite, a deadline of the
	// client's is not.
	statementGrace = 2 * sqldb.Grace
)

// NewGroups returns the coalescer of a store whose groups insert stores. It registers its metrics with reg.
func NewGroups(insert Insert, o Options, reg prometheus.Registerer) (*Groups, error) {
	return coalesce.New(coalesce.Config[struct{}, event.New, event.ID]{
		Name:        "events_add",
		Key:         func(event.New) struct{} { return struct{}{} },
		Size:        func(n event.New) int { return len(n.Value) + overheadBytes },
		Run:         insert,
		InFlight:    o.InFlight,
		Queue:       o.Queue,
		LockTimeout: o.LockTimeout,
		Contention:  o.Contention,
		RunTimeout:  o.StatementTimeout*statements + statementGrace,
		Registry:    reg, TracerProvider: o.TracerProvider,
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
