// Package allocate gathers new events into groups, for both stores: k events take
// their k ids from status at once and share one transaction, instead of standing
// in line for a commit each. Its callers get the ids that they would have got one
// by one.
package allocate

import (
	"context"
	"errors"
	"fmt"
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
	StatementTimeout time.Duration // the deadline of one group
	Contention       *contention.Metrics
	TracerProvider   trace.TracerProvider
}

// Insert stores a group of new events in one transaction that takes the next ids
// in the group's order, waiting for the row of status up to wait. It returns the
// last id, that is status as it stands afterwards, once that is committed. Its
// error is a *sqldb.Error, or event.ErrStatus when nothing was stored because
// status does not hold one row.
type Insert func(ctx context.Context, wait time.Duration, group []event.New) (last event.ID, err error)

// Allocator hands out ids.
type Allocator struct {
	groups *coalesce.Coalescer[struct{}, event.New, event.ID]
	insert Insert
}

// New returns an allocator on a store's insert.
func New(insert Insert, o Options, reg prometheus.Registerer) (*Allocator, error) {
	a := &Allocator{insert: insert}
	groups, err := coalesce.New(coalesce.Config[struct{}, event.New, event.ID]{
		Name:        "events_add",
		Key:         func(event.New) struct{} { return struct{}{} }, // all want the one row of status
		Size:        func(n event.New) int { return len(n.Value) + overheadBytes },
		Run:         a.run,
		InFlight:    o.InFlight,
		Queue:       o.Queue,
		LockTimeout: o.LockTimeout,
		Contention:  o.Contention,
		RunTimeout:  o.StatementTimeout*statements + statementGrace,
		Registry:    reg, TracerProvider: o.TracerProvider,
	})
	if err != nil {
		return nil, err
	}
	a.groups = groups
	return a, nil
}

const (
	// overheadBytes is what an event takes on the wire beside its value.
	overheadBytes = 32
	// statements of one group's transaction that may take their whole time: the
	// lock and the insert. A group that is cut off before COMMIT was not applied.
	statements = 2
	// statementGrace lets the server's own timeouts speak first: its answer is
	// definite, a deadline of ours is not.
	statementGrace = 2 * sqldb.Grace
)

// Add puts an event into the next group and returns its id.
func (a *Allocator) Add(ctx context.Context, n event.New) (event.ID, error) {
	return a.groups.Do(ctx, n)
}

// Close waits until every event under way is answered.
func (a *Allocator) Close(ctx context.Context) error { return a.groups.Close(ctx) }

// run is the coalescer's Run.
func (a *Allocator) run(ctx context.Context, pass coalesce.Pass, group []event.New) ([]coalesce.Answer[event.ID], error) {
	answers := make([]coalesce.Answer[event.ID], len(group))
	if pass.SkipLocked {
		// There is one row, and it is the one that was just waited for in vain.
		for i := range answers {
			answers[i].Locked = true
		}
		return answers, nil
	}
	last, err := a.insert(ctx, pass.Wait, group)
	if err != nil {
		return nil, verdict(err)
	}
	for i := range answers {
		answers[i].Value = last - event.ID(len(group)-1-i)
	}
	return answers, nil
}

// verdict tells the coalescer what it may do about a failed group.
func verdict(err error) error {
	e, ok := errors.AsType[*sqldb.Error](err)
	if ok && e.Outcome == sqldb.NotApplied && e.Reason == sqldb.LockTimeout {
		return fmt.Errorf("%w: %w", coalesce.ErrLockWait, err)
	}
	return err
}
