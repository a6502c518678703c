package coalesce

import (
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// serveSlow works the slow lane until it is empty. Each round first takes every
// slow key whose row is free by now (one statement, no waiting), then waits for
// one locked key, the next in turn, with a wait that doubles while nothing
// moves. So a freed row is seen within one wait, no connection but this one is
// spent however many rows strangers hold, and a row that other replicas keep
// busy is queued for at the server, where locks are granted in order.
func (c *Coalescer[K, Q, R]) serveSlow() {
	wait := c.cfg.BriefWait
	for {
		if c.sweepFree() {
			wait = c.cfg.BriefWait
		}
		group, patience, ok := c.takeSlowKey(wait)
		if !ok {
			return
		}
		if len(group) == 0 {
			continue // everybody waiting for that key had left or given up
		}
		answers, err := c.run(Pass{Wait: patience}, group)
		switch {
		case errors.Is(err, ErrLockWait):
			c.requeue(group)
			wait = min(2*wait, longestWait)
		case errors.Is(err, ErrSplit) && len(group) > 1:
			for _, w := range group {
				c.runGroup([]*call[Q, R]{w})
			}
			wait = c.cfg.BriefWait
		default:
			c.deliverSlow(group, answers, err)
			wait = c.cfg.BriefWait
		}
	}
}

// sweepFree runs what is free among two or more slow keys and says whether
// anything was. With one slow key it would only cost a round trip.
func (c *Coalescer[K, Q, R]) sweepFree() bool {
	c.mu.Lock()
	c.dropSettled()
	var group []*call[Q, R]
	if len(c.rotate) > 1 {
		size := 0
		for _, key := range c.rotate {
			group, size = c.fill(group, size, key)
		}
	}
	c.markSent(group)
	c.mu.Unlock()
	if len(group) == 0 {
		return false
	}
	answers, err := c.run(Pass{SkipLocked: true}, group)
	if errors.Is(err, ErrSplit) && len(group) > 1 {
		for _, w := range group {
			c.runGroup([]*call[Q, R]{w})
		}
		return true
	}
	moved := err != nil
	for _, a := range answers {
		moved = moved || !a.Locked
	}
	c.deliverSlow(group, answers, err)
	return moved
}

// takeSlowKey takes what waits for the next slow key, and how long it may be
// waited for: at most wait, and not beyond its first caller's LockTimeout. It
// ends the lane, with ok false, when no key is slow any more.
func (c *Coalescer[K, Q, R]) takeSlowKey(wait time.Duration) (group []*call[Q, R], patience time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropSettled()
	if len(c.rotate) == 0 {
		c.lane = false
		c.signalIdle()
		return nil, 0, false
	}
	key := c.rotate[0]
	c.rotate = append(c.rotate[1:], key)
	group, _ = c.fill(nil, 0, key)
	if len(group) == 0 {
		return nil, 0, true
	}
	left := c.cfg.LockTimeout - time.Since(group[0].since)
	c.markSent(group)
	// Not shorter than the brief wait, or callers whose time runs out one after
	// the other would keep the rest from ever standing in the server's queue.
	return group, max(min(wait, left), c.cfg.BriefWait), true
}

// fill adds the callers of a slow key to group as far as its bounds allow, and
// removes them from the lane; the key stays slow. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) fill(group []*call[Q, R], size int, key K) ([]*call[Q, R], int) {
	callers := c.slow[key]
	for i, w := range callers {
		size += c.cfg.Size(w.req)
		if len(group) == c.cfg.MaxItems || len(group) > 0 && size > c.cfg.MaxBytes {
			c.slow[key] = callers[i:]
			return group, size
		}
		group = append(group, w)
	}
	c.slow[key] = nil
	return group, size
}

// dropSettled answers those whose LockTimeout has passed, forgets those who
// left, and lets keys that nobody waits for leave the lane. The caller holds
// c.mu.
func (c *Coalescer[K, Q, R]) dropSettled() {
	now := time.Now()
	keys := c.rotate[:0]
	for _, key := range c.rotate {
		callers := c.slow[key][:0]
		for _, w := range c.slow[key] {
			switch {
			case w.state == settled:
			case now.Sub(w.since) >= c.cfg.LockTimeout:
				w.state = settled
				c.setWaiting(-1)
				c.metrics.gaveUp.Inc()
				c.cfg.Contention.Waited(contention.InLane, now.Sub(w.since))
				w.done <- Answer[R]{Err: ErrLocked}
			default:
				callers = append(callers, w)
			}
		}
		if len(callers) == 0 {
			delete(c.slow, key)
			continue
		}
		c.slow[key] = callers
		keys = append(keys, key)
	}
	clear(c.rotate[len(keys):])
	c.rotate = keys
	c.metrics.slow.Set(float64(len(keys)))
}

// requeue puts a group that was not applied back, before those who came later.
func (c *Coalescer[K, Q, R]) requeue(group []*call[Q, R]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putBack(group)
}

// deliverSlow is deliver for the slow lane: what is still locked goes back to
// the front of its key's callers, and a key whose callers were all served is
// slow no longer. Whoever has come for it meanwhile moves to the main lane: a
// hot key always has somebody waiting, and would never leave otherwise.
func (c *Coalescer[K, Q, R]) deliverSlow(group []*call[Q, R], answers []Answer[R], err error) {
	served := make(map[K]bool)
	var locked, free []*call[Q, R]
	var results []Answer[R]
	for i, w := range group {
		key := c.cfg.Key(w.req)
		if err == nil && answers[i].Locked {
			locked, served[key] = append(locked, w), false
			continue
		}
		free = append(free, w)
		c.cfg.Contention.Waited(contention.InLane, time.Since(w.since))
		if err == nil {
			results = append(results, answers[i])
			if _, seen := served[key]; !seen {
				served[key] = true
			}
		}
	}
	c.deliver(free, results, err)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.putBack(locked)
	for key, all := range served {
		if all {
			c.leaveLane(key)
		}
	}
}

// leaveLane makes a key an ordinary one again. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) leaveLane(key K) {
	callers := c.slow[key]
	delete(c.slow, key)
	c.rotate = slices.DeleteFunc(c.rotate, func(k K) bool { return k == key })
	c.metrics.slow.Set(float64(len(c.rotate)))
	for _, w := range callers {
		c.queue.push(w)
	}
	c.startServing()
}

// putBack returns calls of any keys to the front of the lane, in their order.
// The caller holds c.mu.
func (c *Coalescer[K, Q, R]) putBack(group []*call[Q, R]) {
	back := make(map[K][]*call[Q, R])
	for _, w := range group {
		if w.left {
			w.state = settled
			continue
		}
		w.state = queued
		c.setWaiting(1)
		key := c.cfg.Key(w.req)
		back[key] = append(back[key], w)
	}
	for key, calls := range back {
		c.slow[key] = append(calls, c.slow[key]...)
	}
}
