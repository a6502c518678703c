package groupcommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// commit sends a group of the queue and answers its callers: first with a brief wait for locked rows, then for the rows
// that are free.
func (c *Committer[K, Q, R]) commit(group []*call[K, Q, R]) {
	first := Attempt{
		LockWait:   min(c.cfg.Patient.FirstWait(), c.cfg.LockTimeout),
		SkipLocked: c.cfg.Lease != nil, // a lease is not waited for here
	}
	c.try(group, first, nil, func(group []*call[K, Q, R], took time.Duration) bool {
		// One key goes to its lane. A wait of LockTimeout, in spite of LockWait, is for the lock of the table.
		if oneKey(group) || took >= c.cfg.LockTimeout {
			return false
		}
		glances := maxGlances
		c.commitFree(group, &glances)
		return true
	})
}

// commitFree sends a group for the rows that are free. A row that another session is inserting cannot be skipped: the
// group is halved until the request at fault is alone, or glances, which bounds the waits for such rows, is used up.
// When one is found, the others for its place leave the group.
func (c *Committer[K, Q, R]) commitFree(group []*call[K, Q, R], glances *int) {
	free := Attempt{LockWait: glance, SkipLocked: true}
	c.try(c.undiverted(group), free, glances, func(group []*call[K, Q, R], _ time.Duration) bool {
		*glances--
		if oneKey(group) {
			return false
		}
		half := len(group) / 2
		c.commitFree(group[:half], glances)
		c.commitFree(group[half:], glances)
		return true
	})
}

// try sends a group and answers its callers. Where one request may be at fault for an error, it sends the halves
// instead. When a lock did not come free in time it calls locked, if that is not nil, which returns true if it has
// answered the callers; otherwise they go to the lanes of their keys. Once glances, which may be nil, is used up,
// nothing more is sent: all go to the lanes. try returns false when a row stayed locked.
func (c *Committer[K, Q, R]) try(
	group []*call[K, Q, R], pass Attempt, glances *int, locked func(group []*call[K, Q, R], took time.Duration) bool,
) (free bool) {
	group = c.remaining(group)
	switch {
	case len(group) == 0:
		return true
	case glances != nil && *glances <= 0:
		c.conclude(group, make([]*R, len(group)), nil)
		return false
	}
	begin := time.Now()
	answers, err := c.send(group, pass)

	switch {
	case len(group) > 1 && oneAtFault(err):
		half := len(group) / 2
		free = c.try(group[:half], pass, glances, locked)
		return c.try(group[half:], pass, glances, locked) && free
	case isLocked(err):
		if locked != nil && locked(group, time.Since(begin)) {
			return false
		}
		answers, err = make([]*R, len(group)), nil
	}
	c.conclude(group, answers, err)
	return !slices.Contains(answers, nil)
}

// undiverted returns a group without the calls that wait elsewhere from now on. Those of the lanes stay.
func (c *Committer[K, Q, R]) undiverted(group []*call[K, Q, R]) []*call[K, Q, R] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(group, func(w *call[K, Q, R]) bool {
		if w.state != sent || w.inLane {
			return false
		}
		w.state = queued
		c.addWaiting(1)
		if c.divert(w) {
			return true
		}
		w.state = sent
		c.addWaiting(-1)
		return false
	})
}

// remaining returns a group without the callers that were told that their outcome is unknown. They may have repeated
// their request since, so it is not sent again.
func (c *Committer[K, Q, R]) remaining(group []*call[K, Q, R]) []*call[K, Q, R] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(group, func(w *call[K, Q, R]) bool { return w.state == abandoned })
}

// oneAtFault reports whether Send asked for the halves, the server refused a value or a constraint was violated, and
// nothing was applied: a single request of the group may be the cause.
func oneAtFault(err error) bool {
	if errors.Is(err, ErrSplit) {
		return true
	}
	e := sqldb.Classify(err, false)
	return e != nil && e.Outcome == sqldb.NotApplied && (e.Reason == sqldb.Constraint || e.Reason == sqldb.Data)
}

// isLocked reports whether a lock did not come free in time, and nothing was applied.
func isLocked(err error) bool { return sqldb.LockTimedOut(err) }

// oneKey reports whether all requests of a group are of one key.
func oneKey[K comparable, Q, R any](group []*call[K, Q, R]) bool {
	return !slices.ContainsFunc(group, func(w *call[K, Q, R]) bool { return w.key != group[0].key })
}

// conclude answers the callers of a group, with err or each with its own answer. Those whose row is locked, with the
// answer nil, go to the lane of their key, and a lane whose row was free ends.
func (c *Committer[K, Q, R]) conclude(group []*call[K, Q, R], answers []*R, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.pipeline.expect(len(group)) // before they can have come to the next stage
	free := make(map[K]bool)
	locked := make(map[K][]*call[K, Q, R])
	for i, w := range group {
		switch {
		case err != nil:
			c.finish(w, answer[R]{err: err})
		case answers[i] != nil:
			free[w.key] = true
			c.finish(w, answer[R]{value: *answers[i]})
		case c.cfg.Lease != nil && w.tries == c.cfg.Lease.Retries:
			c.finish(w, answer[R]{err: ErrLocked})
		default:
			w.tries++
			locked[w.key] = append(locked[w.key], w)
		}
	}

	for key, calls := range locked {
		c.standAgain(key, calls)
	}
	for key := range free {
		if len(locked[key]) == 0 {
			c.endLane(key)
		}
	}
}

// send sends a group and returns one answer for each request, nil where its row is locked.
func (c *Committer[K, Q, R]) send(group []*call[K, Q, R], pass Attempt) (answers []*R, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()

	c.metrics.size.Observe(float64(len(group)))
	ctx, span := c.startSpan(ctx, pass, group)
	defer func() {
		if p := recover(); p != nil { // it must not end the process, and how far the group had come is not known
			answers, err = nil, fmt.Errorf("%w: %s panicked: %v", ErrUnknown, c.cfg.Name, p)
		}
		endSpan(span, answers, err)
	}()

	switch {
	case c.cfg.Repeat != nil:
		answers, err = c.sendRepeatable(ctx, pass, group)
	case c.cfg.Lease != nil:
		answers, err = c.sendLeased(ctx, pass, group)
	default:
		answers, err = c.sendProven(ctx, pass, group)
	}
	if err == nil {
		err = c.complete(answers, len(group))
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// complete returns ErrUnknown unless there is an answer for each of n requests.
func (c *Committer[K, Q, R]) complete(answers []*R, n int) error {
	if len(answers) != n {
		return fmt.Errorf("%w: %s gave %d answers to %d requests", ErrUnknown, c.cfg.Name, len(answers), n)
	}
	return nil
}

func requestsOf[K comparable, Q, R any](group []*call[K, Q, R]) []Q {
	requests := make([]Q, len(group))
	for i, w := range group {
		requests[i] = w.request
	}
	return requests
}

// sendProven sends a group by Send until its outcome is certain, and returns its answers, one for each request. One
// that a caller has left by then, with ErrUnknown, is sent again by commit, without that caller.
func (c *Committer[K, Q, R]) sendProven(
	ctx context.Context, pass Attempt, group []*call[K, Q, R],
) (answers []*R, err error) {
	requests := requestsOf(group)
	sends := 0
	once := func(ctx context.Context, a *Attempt) error {
		sends++
		if sends > 1 && len(c.remaining(slices.Clone(group))) < len(group) {
			return ErrSplit
		}
		return c.sendOnce(ctx, a, func(ctx context.Context, session Session) error {
			a.Answers = nil
			return c.cfg.Send(ctx, session, a, requests)
		})
	}

	stored, err := c.cfg.Slots.prove(ctx, c.cfg.Place(requests[0]), pass, once)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(stored, &answers); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnknown, c.cfg.Name, err)
	}
	return answers, c.complete(answers, len(requests))
}

// sendRepeatable sends a group by Repeat, again after a lost answer, until one comes or the time is over.
func (c *Committer[K, Q, R]) sendRepeatable(
	ctx context.Context, a Attempt, group []*call[K, Q, R],
) (answers []*R, err error) {
	requests := requestsOf(group)
	a.Again = slices.ContainsFunc(group, func(w *call[K, Q, R]) bool { return w.doubtful })
	once := func(ctx context.Context) error {
		return c.sendOnce(ctx, &a, func(ctx context.Context, session Session) (err error) {
			answers, err = c.cfg.Repeat(ctx, session, &a, requests)
			return err
		})
	}

	err = once(ctx)
	if !isUnknown(err) {
		return answers, err
	}

	a.Again = true
	for _, w := range group {
		w.doubtful = true
	}
	var refusal error // commit handles it
	err = c.cfg.DB.Resolve(ctx, err, func(ctx context.Context) (answered bool, err error) {
		if err = once(ctx); isLocked(err) || oneAtFault(err) {
			refusal, err = err, nil
		}
		return true, err
	})
	if err == nil {
		err = refusal
	}
	return answers, err
}

// sendOnce sends a group once, by send, and records how long its statements have waited for locked rows.
func (c *Committer[K, Q, R]) sendOnce(
	ctx context.Context, a *Attempt, send func(ctx context.Context, session Session) error,
) (err error) {
	a.Waited = 0
	var options []sqldb.Option
	if c.cfg.Slots != nil || c.cfg.Repeat != nil {
		options = append(options, sqldb.Proven())
	}

	if c.cfg.Transaction {
		options = append(options, sqldb.WithLockTimeout(a.LockWait))
		err = c.cfg.DB.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return send(ctx, tx) }, options...)
	} else {
		err = send(ctx, c.cfg.DB.Once(options...))
	}

	switch {
	case err == nil:
		c.cfg.Contention.Waited(contention.InDatabase, a.Waited)
	case isLocked(err):
		c.cfg.Contention.Waited(contention.InDatabase, max(a.Waited, a.LockWait)) // MySQL waits for whole seconds
	}
	return err
}
