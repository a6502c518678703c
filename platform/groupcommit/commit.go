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
	group = c.remaining(group)
	if len(group) == 0 {
		return
	}
	begin := time.Now()
	answers, err := c.send(group, Attempt{
		LockWait:   min(c.cfg.Patient.FirstWait(), c.cfg.LockTimeout),
		SkipLocked: c.cfg.Lease != nil, // a lease is not waited for here
	})

	switch {
	case !isLocked(err):
		c.settleParts(group, answers, err, c.commit)
	// One key goes to its lane. A wait of LockTimeout, in spite of LockWait, is for the lock of the table.
	case oneKey(group), time.Since(begin) >= c.cfg.LockTimeout:
		c.settle(group, make([]*R, len(group)), nil)
	default:
		glances := maxGlances
		c.commitFree(group, &glances)
	}
}

// commitFree sends a group for the rows that are free. A row that another session is inserting cannot be skipped: the
// group is halved until the request at fault is alone, or glances, which bounds the waits for such rows, is used up.
func (c *Committer[K, Q, R]) commitFree(group []*call[K, Q, R], glances *int) {
	group = c.remaining(group)
	if len(group) == 0 {
		return
	}
	if *glances == 0 {
		c.settle(group, make([]*R, len(group)), nil)
		return
	}
	answers, err := c.send(group, Attempt{LockWait: glance, SkipLocked: true})

	again := func(part []*call[K, Q, R]) { c.commitFree(part, glances) }
	switch {
	case !isLocked(err):
		c.settleParts(group, answers, err, again)
	case oneKey(group):
		*glances--
		c.settle(group, make([]*R, len(group)), nil)
	default:
		*glances--
		halve(group, again)
	}
}

// settleParts answers a group. Where one request may be at fault for the error, it sends the halves by again instead.
func (c *Committer[K, Q, R]) settleParts(
	group []*call[K, Q, R], answers []*R, err error, again func(part []*call[K, Q, R]),
) {
	if len(group) > 1 && oneAtFault(err) {
		halve(group, again)
		return
	}
	c.settle(group, answers, err)
}

// remaining returns a group without the callers that were told that their outcome is unknown. They may have repeated
// their request since, so it is not sent again.
func (c *Committer[K, Q, R]) remaining(group []*call[K, Q, R]) []*call[K, Q, R] {
	c.mu.Lock()
	defer c.mu.Unlock()

	return slices.DeleteFunc(group, func(w *call[K, Q, R]) bool {
		if w.abandoned {
			w.state = finished
		}
		return w.abandoned
	})
}

func halve[T any](group []T, send func(part []T)) {
	half := len(group) / 2
	send(group[:half])
	send(group[half:])
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
	for _, w := range group {
		if w.key != group[0].key {
			return false
		}
	}
	return true
}

// settle answers the callers of a group, with err or each with its own answer. Those whose row is locked, with the
// answer nil, go to the lane of their key, and a lane whose row was free ends.
func (c *Committer[K, Q, R]) settle(group []*call[K, Q, R], answers []*R, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	free := make(map[K]bool)
	locked := make(map[K][]*call[K, Q, R])
	c.pipeline.expect(len(group), c.cfg.MaxItems) // before they can have come to the next stage
	for i, w := range group {
		if err == nil && answers[i] == nil {
			w.tries++
			if c.mayTry(w) {
				locked[w.key] = append(locked[w.key], w)
				continue
			}
		}

		a := answer[R]{err: err}
		switch {
		case err != nil:
		case answers[i] == nil:
			a.err = ErrLocked
		default:
			a.value, free[w.key] = *answers[i], true
		}
		if w.inLane {
			c.waited(w)
		}
		c.finish(w, a)
	}
	for key, calls := range locked {
		c.standFirst(key, calls)
	}
	for key := range free {
		if len(locked[key]) == 0 {
			c.endLane(key)
		}
	}
}

// mayTry reports whether a call whose key was found locked may be sent again.
func (c *Committer[K, Q, R]) mayTry(w *call[K, Q, R]) bool {
	return c.cfg.Lease == nil || w.tries <= c.cfg.Lease.Retries
}

// send sends a group and returns one answer for each request, nil where its row is locked.
func (c *Committer[K, Q, R]) send(group []*call[K, Q, R], pass Attempt) (answers []*R, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()

	c.observe(group)
	ctx, span := c.startSpan(ctx, pass, group)
	defer func() {
		if p := recover(); p != nil { // it must not end the process, and how far the group had come is not known
			answers, err = nil, fmt.Errorf("%w: %s panicked: %v", ErrUnknown, c.cfg.Name, p)
		}
		endSpan(span, answers, err)
	}()

	switch {
	case c.cfg.Repeat != nil:
		return c.sendRepeatable(ctx, pass, group)
	case c.cfg.Lease != nil:
		return c.sendLeased(ctx, pass, group)
	}
	return c.sendProven(ctx, pass, group)
}

func requestsOf[K comparable, Q, R any](group []*call[K, Q, R]) []Q {
	requests := make([]Q, len(group))
	for i, w := range group {
		requests[i] = w.request
	}
	return requests
}

// sendProven sends a group by Send until it is certain what has become of it, and returns its answers, one for each
// request. One that a caller has left by then, with ErrUnknown, is sent again by commit, without that caller.
func (c *Committer[K, Q, R]) sendProven(
	ctx context.Context, pass Attempt, group []*call[K, Q, R],
) (answers []*R, err error) {
	requests := requestsOf(group)
	sends := 0
	stored, err := c.slotsOf(requests).prove(ctx, pass, func(ctx context.Context, a *Attempt) error {
		if sends++; sends > 1 && c.isAbandoned(group) {
			return ErrSplit
		}
		return c.sendOnce(ctx, a, func(ctx context.Context, session Session) error {
			a.Answers = nil
			return c.cfg.Send(ctx, session, a, requests)
		})
	})
	if err != nil {
		return nil, err
	}

	if err := json.Unmarshal(stored, &answers); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnknown, c.cfg.Name, err)
	}
	return answers, c.complete(answers, requests)
}

// isAbandoned reports whether a caller of the group was told that its outcome is unknown.
func (c *Committer[K, Q, R]) isAbandoned(group []*call[K, Q, R]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(group, func(w *call[K, Q, R]) bool { return w.abandoned })
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

	if err = once(ctx); isUnknown(err) {
		a.Again = true
		for _, w := range group {
			w.doubtful = true
		}

		var refusal error // commit knows what to do with it
		err = c.cfg.DB.Resolve(ctx, err, func(ctx context.Context) (answered bool, err error) {
			if err = once(ctx); isLocked(err) || oneAtFault(err) {
				refusal, err = err, nil
			}
			return true, err
		})
		if err == nil {
			err = refusal
		}
	}

	if err != nil {
		return nil, err
	}
	return answers, c.complete(answers, requests)
}

// complete returns ErrUnknown unless there is an answer for each request.
func (c *Committer[K, Q, R]) complete(answers []*R, group []Q) error {
	if len(answers) != len(group) {
		return fmt.Errorf("%w: %s gave %d answers to %d requests", ErrUnknown, c.cfg.Name, len(answers), len(group))
	}
	return nil
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

// observe records a group that is about to be sent, and how long each request has waited for its first sending.
func (c *Committer[K, Q, R]) observe(group []*call[K, Q, R]) {
	c.metrics.size.Observe(float64(len(group)))
	now := time.Now()
	for _, w := range group {
		if !w.observed {
			w.observed = true
			c.metrics.wait.Observe(now.Sub(w.since).Seconds())
		}
	}
}
