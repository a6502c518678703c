package sqldb

import (
	"context"
	"errors"
	"time"
)

const (
	// resolveWithin bounds Resolve where the context has no deadline.
	resolveWithin   = 5 * time.Second
	resolveInterval = 20 * time.Millisecond
)

// The values of the metric's label result.
const (
	resultCommitted = "committed"
	resultAborted   = "aborted"
	resultUnknown   = "unknown"
)

// Resolve finds out what became of a change whose answer was lost, with the error lost of a call that was [Proven]. ask
// finds out, on another connection, whether the change was made, and makes sure that it never will be when it was not
// yet. It is called again, until ctx's deadline, after an error that may pass: of the connection, a timeout, a lock,
// one inside the server. A caller that goes away does not end the look-up.
//
// Where lost says NotApplied and the change must be made, ask makes it; this is not counted.
//
// Resolve returns nil for a change that was made, an [*Error] with the outcome NotApplied for one that was not, and
// lost where neither could be found out.
func (db *DB) Resolve(ctx context.Context, lost error, ask func(ctx context.Context) (applied bool, err error)) error {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(resolveWithin)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()

	for {
		applied, err := ask(ctx)
		switch {
		case err == nil && applied:
			db.countResolved(lost, resultCommitted)
			return nil
		case err == nil:
			db.countResolved(lost, resultAborted)
			return AsNotApplied(Classify(lost, true))
		case !passes(err) || !Pause(ctx, resolveInterval):
			db.countResolved(lost, resultUnknown)
			return lost
		}
	}
}

// countResolved counts what was found out about a lost answer.
func (db *DB) countResolved(lost error, result string) {
	e, ok := errors.AsType[*Error](lost)
	if !ok || e.Outcome != Unknown {
		return
	}

	db.metrics.resolved.WithLabelValues(result).Inc()
	if result == resultUnknown {
		db.metrics.unknown.WithLabelValues(e.operation).Inc()
	}
}

// countUnknown notes which operation ended with an unknown outcome, and counts it, unless the caller resolves it. What
// has no options may be sent again, and does not count.
func (db *DB) countUnknown(err error, operation string, o *options) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Outcome != Unknown {
		return err
	}
	e.operation = operation
	if o != nil && !o.proven {
		db.metrics.unknown.WithLabelValues(operation).Inc()
	}
	return err
}

// passes reports whether the same statement may succeed later. An internal error of the server (class XX) may be that
// of a worker of Citus, or of two changes of one row of a catalogue.
func passes(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Reason == Constraint || e.Reason == Data || e.Reason == Denied {
		return false
	}
	return e.Reason != Other || class(e.SQLState) == "XX"
}

// AsNotApplied returns err with the outcome NotApplied, for a caller that knows that nothing was applied, or that what
// was does not count. An error that is not the database's is returned unchanged.
func AsNotApplied(err error) error {
	e, ours := errors.AsType[*Error](err)
	if !ours {
		return err
	}
	known := *e
	known.Outcome = NotApplied
	return &known
}
