package coalesce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// serve runs groups of the main lane until nothing waits there.
func (c *Coalescer[K, Q, R]) serve() {
	for {
		leave := c.gate.enter()
		c.gather()
		c.mu.Lock()
		group := c.take()
		if len(group) == 0 {
			c.running--
			c.signalIdle()
			c.mu.Unlock()
			leave()
			return
		}
		c.mu.Unlock()
		over := c.gate.bound(leave)
		c.runGroup(group)
		over()
	}
}

// busy reports whether a goroutine runs groups. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) busy() bool { return c.running > 0 || c.slowRunning || c.probing }

// signalIdle wakes Close when nothing runs any more. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) signalIdle() {
	if !c.busy() {
		c.idle.Broadcast()
	}
}

// take removes the next group from the main queue and marks it sent. A call whose key
// became known as locked since it was queued leaves the queue. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) take() []*call[K, Q, R] {
	var group []*call[K, Q, R]
	var l load
	for !c.queue.empty() {
		w := c.queue.peek()
		if w.state == finished {
			c.queue.pop()
			continue
		}
		if k := c.findLocked(w); k != nil {
			c.queue.pop()
			c.enterLocked(w.key, k, w)
			continue
		}
		if !c.fits(&l, w) {
			break
		}
		c.queue.pop()
		group = append(group, w)
	}
	c.countQueue()
	c.markSent(group)
	return group
}

// load is what a group holds, in the units of its bounds.
type load struct{ items, bytes int }

// fits adds a request to the load of a group and returns true, or returns false when the group has no room for it. A
// group's first request always fits.
func (c *Coalescer[K, Q, R]) fits(l *load, w *call[K, Q, R]) bool {
	items, bytes := l.items+w.items, l.bytes+c.cfg.Size(w.req)
	if l.items > 0 && (items > c.cfg.MaxItems || bytes > c.cfg.MaxBytes) {
		return false
	}
	l.items, l.bytes = items, bytes
	return true
}

// markSent marks the calls sent, so that they cannot be withdrawn. The caller holds
// c.mu.
func (c *Coalescer[K, Q, R]) markSent(group []*call[K, Q, R]) {
	items := 0
	for _, w := range group {
		w.state = sent
		items += w.items
	}
	c.addWaiting(-len(group), -items)
}

// observe records a group that is about to be sent, and each request's wait the first
// time it is sent. It runs without c.mu, which every caller needs.
func (c *Coalescer[K, Q, R]) observe(group []*call[K, Q, R]) {
	c.metrics.size.Observe(float64(len(group)))
	now := time.Now()
	for _, w := range group {
		if !w.observed {
			w.observed = true
			c.metrics.wait.Observe(now.Sub(w.since).Seconds())
		}
	}
}

// runGroup runs a group of the main lane: with a brief wait for locks, then for the
// free rows only. Calls of locked rows go to the slow lane.
func (c *Coalescer[K, Q, R]) runGroup(group []*call[K, Q, R]) {
	begin := time.Now()
	answers, err := c.run(Pass{Wait: c.cfg.BriefWait}, group)
	if errors.Is(err, ErrLockWait) {
		if time.Since(begin) < c.cfg.LockTimeout {
			answers, err = c.run(Pass{SkipLocked: true}, group)
		} else {
			// A wait longer than LockTimeout is not for a row: the table is locked,
			// and the callers' time is over.
			answers, err = allLocked[R](len(group)), nil
		}
	}
	if errors.Is(err, ErrSplit) && len(group) > 1 {
		c.runGroup(group[:len(group)/2])
		c.runGroup(group[len(group)/2:])
		return
	}
	c.distribute(group, answers, err)
}

// runEach runs each call of the slow lane as a group of its own.
func (c *Coalescer[K, Q, R]) runEach(group []*call[K, Q, R]) {
	for _, w := range group {
		c.runGroup([]*call[K, Q, R]{w})
	}
}

// run calls Config.Run with a deadline and checks its answers. A panic becomes
// ErrUnknown for every caller: it must not end the process, and how far the statement
// had come is not known.
func (c *Coalescer[K, Q, R]) run(pass Pass, group []*call[K, Q, R]) (answers []Answer[R], err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.runTimeout())
	defer cancel()
	c.observe(group)
	requests := make([]Q, len(group))
	for i, w := range group {
		requests[i] = w.req
	}
	var span trace.Span
	if c.tracer != nil {
		ctx, span = c.startSpan(ctx, pass, group)
	}
	defer func() {
		if p := recover(); p != nil {
			answers, err = nil, c.panicked(p)
		}
		endSpan(span, answers, err)
	}()
	answers, err = c.cfg.Run(ctx, pass, requests)
	if pass.SkipLocked && errors.Is(err, ErrLockWait) {
		// Row locks were skipped, so it is the table that is locked, by DDL.
		answers, err = allLocked[R](len(group)), nil
	}
	if err == nil && len(answers) != len(group) {
		return nil, fmt.Errorf("%w: %s gave %d answers to %d requests", ErrUnknown, c.cfg.Name, len(answers), len(group))
	}
	return answers, err
}

// panicked returns the answer to the callers of a group whose function panicked.
func (c *Coalescer[K, Q, R]) panicked(p any) error {
	return fmt.Errorf("%w: %s panicked: %v", ErrUnknown, c.cfg.Name, p)
}

// allLocked returns the answers of a group of n requests of which none was applied.
func allLocked[R any](n int) []Answer[R] {
	answers := make([]Answer[R], n)
	for i := range answers {
		answers[i].Locked = true
	}
	return answers
}

// distribute sends each caller its own answer, or err to all. Calls that were skipped
// because their row is locked go to the slow lane.
func (c *Coalescer[K, Q, R]) distribute(group []*call[K, Q, R], answers []Answer[R], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := len(group)
	for _, a := range answers {
		if err == nil && a.Locked {
			answered--
		}
	}
	c.gate.expect(answered, c.cfg.MaxItems) // before they can be in another coalescer of the gate
	for i, w := range group {
		a := Answer[R]{Err: err}
		if err == nil {
			a = answers[i]
		}
		if err == nil && a.Locked {
			c.makeSlow(w, a.At)
			continue
		}
		c.finish(w, a)
	}
}

// finish answers a call. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) finish(w *call[K, Q, R], a Answer[R]) {
	c.givePlace(w)
	w.state = finished
	w.done <- a
}

// makeSlow puts a call that was not applied into the slow lane of its key at, or refuses it. This key is known as
// locked from now on. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) makeSlow(w *call[K, Q, R], at int) {
	w.key = c.keyAt(w, at)
	k := c.setLocked(w.key)
	if c.queueAgain(w) {
		c.enterSlow(w.key, k, w)
	}
}

// queueAgain marks a call that was not applied as queued. It returns false when the
// caller has abandoned the call, which is then finished. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) queueAgain(w *call[K, Q, R]) bool {
	if w.abandoned {
		w.state = finished
		return false
	}
	w.state = queued
	c.addWaiting(1, w.items)
	return true
}
