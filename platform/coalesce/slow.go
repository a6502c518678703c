package coalesce

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// serveSlow serves the slow lane until it is empty. Each round first runs the calls of
// every slow key whose row is free by now (one statement, no waiting), then waits for
// one locked key, the next in turn, with a wait that doubles while no row comes free.
// So a freed row is found within one wait, the lane uses one connection however many
// rows other transactions hold, and for a row that other replicas keep busy it queues
// at the server, where locks are granted in order.
//
// Calls of several keys are not run here: they would keep their other rows locked while
// they wait, and make the calls of this key wait for theirs. The key of their lane is
// awaited, by a statement that locks nothing else, and then they go to the main lane.
func (c *Coalescer[K, Q, R]) serveSlow() {
	wait := c.cfg.BriefWait
	for {
		if c.runFree() {
			wait = c.cfg.BriefWait
		}
		key, group, keyWait := c.takeSlowKey(wait)
		var served bool
		switch {
		case keyWait == 0:
			return
		case len(group) > 0:
			served = c.runSlow(key, group, keyWait)
		default:
			served = c.awaitSlow(key, keyWait)
		}
		if served {
			wait = c.cfg.BriefWait
		} else {
			wait = min(2*wait, longestWait)
		}
	}
}

// runSlow runs calls of a slow key, and waits for its row. It returns false when the row stayed locked.
func (c *Coalescer[K, Q, R]) runSlow(key K, group []*call[K, Q, R], wait time.Duration) bool {
	answers, err := c.run(Pass{Wait: wait}, group)
	c.answered(key)
	switch {
	case errors.Is(err, ErrLockWait):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.putBack(group)
		return false
	case errors.Is(err, ErrSplit) && len(group) > 1:
		c.runEach(group)
	default:
		c.distributeSlow(group, answers, err)
		return err != nil || slices.ContainsFunc(answers, func(a Answer[R]) bool { return !a.Locked })
	}
	return true
}

// awaitSlow waits for the row of a slow key, and lets the key's calls go to the main lane. It returns false when the
// row stayed locked.
func (c *Coalescer[K, Q, R]) awaitSlow(key K, wait time.Duration) bool {
	_, err := c.await(Pass{Wait: wait}, []K{key})
	c.answered(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, ErrLockWait):
		return false
	case err != nil:
		c.refuse(key, err)
	default:
		c.endLane(key)
	}
	return true
}

// endLane is endSlow for a key whose calls were not run in the lane. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) endLane(key K) {
	if k := c.locked[key]; k != nil {
		for _, w := range k.callers {
			if w.state != finished {
				c.cfg.Contention.Waited(contention.InLane, time.Since(w.since))
			}
		}
	}
	c.endSlow(key)
}

// refuse answers the calls of a slow key, which were not applied, with err. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) refuse(key K, err error) {
	k := c.locked[key]
	if k == nil {
		return
	}
	for _, w := range k.callers {
		if w.state != finished {
			c.addWaiting(-1, -w.items)
			c.finish(w, Answer[R]{Err: err})
		}
	}
	k.callers = nil
}

// await calls Config.Await as run calls Config.Run.
func (c *Coalescer[K, Q, R]) await(pass Pass, keys []K) (free []K, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.StatementTimeout+statementGrace)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			free, err = nil, c.panicked(p)
		}
	}()
	return c.cfg.Await(ctx, pass, keys)
}

// runFree runs the calls of two or more slow keys whose rows are free and reports
// whether there were any. With one slow key it would only cost a round trip.
func (c *Coalescer[K, Q, R]) runFree() bool {
	c.mu.Lock()
	c.expireSlow()
	var group []*call[K, Q, R]
	var several []K
	if len(c.slowKeys) > 1 {
		var l load
		for _, key := range c.slowKeys {
			if c.severalKeysIn(key) {
				several = append(several, key)
				continue
			}
			group = c.fill(group, &l, key)
		}
	}
	c.markSent(group)
	c.mu.Unlock()
	found := c.endFree(several)
	if len(group) == 0 {
		return found
	}
	answers, err := c.run(Pass{SkipLocked: true}, group)
	if errors.Is(err, ErrSplit) && len(group) > 1 {
		c.runEach(group)
		return true
	}
	found = found || err != nil || slices.ContainsFunc(answers, func(a Answer[R]) bool { return !a.Locked })
	c.distributeSlow(group, answers, err)
	return found
}

// endFree lets the calls of those keys whose rows are free by now go to the main lane, and reports whether there were
// any.
func (c *Coalescer[K, Q, R]) endFree(keys []K) bool {
	if len(keys) == 0 {
		return false
	}
	free, err := c.await(Pass{SkipLocked: true}, keys)
	if err != nil {
		return false // the wait for one of them finds out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range free {
		c.endLane(key)
	}
	return len(free) > 0
}

// takeSlowKey takes the calls of the next slow key, or none where some are of several
// keys, and returns how long to wait for its row: at most wait, and not beyond its first
// caller's LockTimeout. When no key is slow any more it ends the lane and returns no wait.
func (c *Coalescer[K, Q, R]) takeSlowKey(
	wait time.Duration,
) (key K, group []*call[K, Q, R], keyWait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireSlow()
	if len(c.slowKeys) == 0 {
		c.slowRunning = false
		c.signalIdle()
		return key, nil, 0
	}
	key = c.slowKeys[0]
	c.slowKeys = append(c.slowKeys[1:], key)
	k := c.locked[key]
	k.asked = true
	remaining := c.cfg.LockTimeout - time.Since(k.callers[0].since)
	if !c.severalKeysIn(key) {
		group = c.fill(nil, new(load), key)
		c.markSent(group)
	}
	// Not shorter than the brief wait, or callers whose time runs out one after
	// the other would keep the others from ever queueing at the server.
	return key, group, max(min(wait, remaining), c.cfg.BriefWait)
}

// answered notes that the statement that waited for the key's row has ended.
func (c *Coalescer[K, Q, R]) answered(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.locked[key]; k != nil {
		k.asked = false
	}
}

// startSlow gives a key its turn in the slow lane, unless it has one. The caller holds
// c.mu.
func (c *Coalescer[K, Q, R]) startSlow(key K, k *lockedKey[K, Q, R]) {
	if !k.inTurn {
		k.inTurn = true
		c.slowKeys = append(c.slowKeys, key)
		c.countSlow()
	}
	if !c.slowRunning {
		c.slowRunning = true
		go c.serveSlow()
	}
}

// countSlow adds what has become of the number of slow keys to the metric. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) countSlow() {
	c.metrics.slow.Add(float64(len(c.slowKeys) - c.slowCounted))
	c.slowCounted = len(c.slowKeys)
}

// fill adds the callers of a slow key to group as far as its bounds allow, and
// removes them from the lane; the key stays slow. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) fill(group []*call[K, Q, R], l *load, key K) []*call[K, Q, R] {
	k := c.locked[key]
	for i, w := range k.callers {
		if !c.fits(l, w) {
			k.callers = k.callers[i:]
			return group
		}
		group = append(group, w)
	}
	k.callers = nil
	return group
}

// expireSlow answers the calls whose LockTimeout has passed with ErrLocked, and removes
// them, withdrawn calls and keys without calls from the slow lane. The caller holds
// c.mu.
func (c *Coalescer[K, Q, R]) expireSlow() {
	now := time.Now()
	keys := c.slowKeys[:0]
	for _, key := range c.slowKeys {
		k := c.locked[key]
		callers := k.callers[:0]
		for _, w := range k.callers {
			switch {
			case w.state == finished:
			case now.Sub(w.since) >= c.cfg.LockTimeout:
				c.addWaiting(-1, -w.items)
				c.metrics.gaveUp.Inc()
				c.cfg.Contention.Waited(contention.InLane, now.Sub(w.since))
				c.finish(w, Answer[R]{Err: ErrLocked})
			default:
				callers = append(callers, w)
			}
		}
		k.callers = callers
		if len(callers) == 0 {
			k.inTurn, k.until = false, now.Add(c.cfg.LockTimeout)
			continue
		}
		keys = append(keys, key)
	}
	clear(c.slowKeys[len(keys):])
	c.slowKeys = keys
	c.countSlow()
}

// distributeSlow is distribute for the slow lane: calls of rows that are still locked
// go back to the front of their key's callers, and a key whose calls were all served is
// slow no longer. Calls that arrived for it meanwhile move to the main lane: a hot key
// always has a waiting call, and would never leave the slow lane otherwise.
func (c *Coalescer[K, Q, R]) distributeSlow(group []*call[K, Q, R], answers []Answer[R], err error) {
	served := make(map[K]bool)
	var locked, free []*call[K, Q, R]
	var results []Answer[R]
	for i, w := range group {
		if err == nil && answers[i].Locked {
			locked, served[w.key] = append(locked, w), false
			continue
		}
		free = append(free, w)
		if w.slow {
			c.cfg.Contention.Waited(contention.InLane, time.Since(w.since))
		}
		if err == nil {
			results = append(results, answers[i])
			if _, seen := served[w.key]; !seen {
				served[w.key] = true
			}
		}
	}
	c.distribute(free, results, err)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.putBack(locked)
	for key, all := range served {
		if all {
			c.endSlow(key)
		}
	}
}

// endSlow forgets that a key is locked and moves its calls from the slow lane to the
// main queue. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) endSlow(key K) {
	k := c.locked[key]
	if k == nil {
		return
	}
	delete(c.locked, key)
	c.slowKeys = slices.DeleteFunc(c.slowKeys, func(k K) bool { return k == key })
	c.countSlow()
	c.queueMain(k.callers)
	c.queueMain(k.behind)
}

// queueMain appends calls whose row is free to the main queue. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) queueMain(calls []*call[K, Q, R]) {
	for _, w := range calls {
		c.givePlace(w)
		c.queue.push(w)
	}
	c.startServing()
}

// putBack returns calls that were not applied to the front of the slow lane, in their
// order, and refuses those that come into it for the first time and get no place. Where
// another statement has found the row free meanwhile, they go to the main queue. The
// caller holds c.mu.
func (c *Coalescer[K, Q, R]) putBack(group []*call[K, Q, R]) {
	back := make(map[K][]*call[K, Q, R])
	for _, w := range group {
		if c.queueAgain(w) {
			back[w.key] = append(back[w.key], w)
		}
	}
	for key, calls := range back {
		k := c.locked[key]
		if k == nil {
			c.queueMain(calls)
			continue
		}
		c.setLocked(key)
		calls = slices.DeleteFunc(calls, func(w *call[K, Q, R]) bool { return !c.takePlace(k, w) })
		if len(calls) > 0 {
			k.callers = append(calls, k.callers...)
			c.startSlow(key, k)
		}
	}
}
