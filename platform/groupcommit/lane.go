package groupcommit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// lane holds the callers of a key whose row was found locked. It outlives them by LockTimeout: the next ones would fill
// the queue anew before the lock is found again.
type lane[K comparable, Q, R any] struct {
	calls  []*call[K, Q, R] // that were not sent, in order of arrival
	since  time.Time        // when the row was found locked
	inTurn bool             // it is one of Committer.turns
	place  string           // of its row
	until  time.Time        // when it is forgotten if no caller stands in it
}

// laneOf returns the lane of a key, or nil when its row is not known to be locked. The caller holds c.mu.
func (c *Committer[K, Q, R]) laneOf(key K) *lane[K, Q, R] {
	l := c.lanes[key]
	if l != nil && !l.inTurn && time.Now().After(l.until) {
		delete(c.lanes, key)
		return nil
	}
	return l
}

// stand puts calls into a lane, before the call at an index, and makes sure that the lanes are served. A call without a
// permit of Limits.Share is refused. The caller holds c.mu.
func (c *Committer[K, Q, R]) stand(l *lane[K, Q, R], before int, calls ...*call[K, Q, R]) {
	calls = slices.DeleteFunc(calls, func(w *call[K, Q, R]) bool { return !c.takeShare(l, w) })
	if len(calls) == 0 {
		return
	}

	l.calls = slices.Insert(l.calls, before, calls...)
	if !l.inTurn {
		l.inTurn = true
		c.turns = append(c.turns, calls[0].key)
		c.metrics.slow.Inc()
	}
	if !c.lanesServe {
		c.lanesServe = true
		c.start(c.serveLanes)
	}
}

// standAgain puts calls of a key that were sent, and whose row is locked, before the others of its lane. The caller
// holds c.mu.
func (c *Committer[K, Q, R]) standAgain(key K, calls []*call[K, Q, R]) {
	l := c.lanes[key]
	if l == nil {
		if len(c.lanes) >= c.cfg.Queue { // bounds those without callers
			maps.DeleteFunc(c.lanes, func(_ K, l *lane[K, Q, R]) bool { return !l.inTurn })
		}
		if len(c.locked) >= c.cfg.Queue {
			maps.DeleteFunc(c.locked, func(_ string, until time.Time) bool { return time.Now().After(until) })
		}
		l = &lane[K, Q, R]{since: time.Now(), place: c.cfg.Place(calls[0].request)}
		c.lanes[key] = l
	}
	l.until = time.Now().Add(c.cfg.LockTimeout)
	if l.place != "" {
		c.locked[l.place] = l.until
	}

	calls = slices.DeleteFunc(calls, func(w *call[K, Q, R]) bool { return w.state == abandoned })
	for _, w := range calls {
		w.state = queued
	}
	c.addWaiting(len(calls))
	c.stand(l, 0, calls...)
}

// takeShare gives a call a permit of Limits.Share, unless it has one, or answers ErrCrowded. A key that is leased needs
// none at first: replicas lease it from each other for milliseconds, and no group has waited for it yet. The caller
// holds c.mu.
func (c *Committer[K, Q, R]) takeShare(l *lane[K, Q, R], w *call[K, Q, R]) bool {
	if !w.hasShare && (c.cfg.Lease == nil || time.Since(l.since) >= briefWait) {
		w.hasShare = c.cfg.Share.Take(w.key)
		if !w.hasShare {
			w.inLane = false
			c.addWaiting(-1)
			c.finish(w, answer[R]{err: contention.ErrCrowded})
			return false
		}
	}
	w.inLane = true
	return true
}

// giveShare gives a call's permit of Limits.Share back, if it has one. The caller holds c.mu.
func (c *Committer[K, Q, R]) giveShare(w *call[K, Q, R]) {
	if w.hasShare {
		w.hasShare = false
		c.cfg.Share.Give(w.key)
	}
}

// endLane lets the callers of a key, whose row was found free, go to the queue. The caller holds c.mu.
func (c *Committer[K, Q, R]) endLane(key K) {
	l := c.lanes[key]
	if l == nil {
		return
	}

	delete(c.lanes, key)
	if l.inTurn {
		c.turns = slices.DeleteFunc(c.turns, func(k K) bool { return k == key })
		c.metrics.slow.Dec()
	}
	for _, w := range l.calls {
		c.giveShare(w)
		c.push(w)
	}
}

// Freed lets the callers that stand in the lane of a key go to the queue at once. It is for a key that another request
// of the replica has held, which has ended: otherwise the lane finds out within 250 ms.
func (c *Committer[K, Q, R]) Freed(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLane(key)
}

// serveLanes serves the lanes until all are empty. Each round first sends the requests of all lanes for the rows
// that are free by now, and then waits for the row of one lane, the next in turn, with a wait that doubles while none
// comes free. So the lanes use one connection however many rows are locked, a row that has come free is found within
// one wait, and for one that other replicas keep busy the replica stands in line at the server.
func (c *Committer[K, Q, R]) serveLanes() {
	for wait := briefWait; wait > 0; {
		wait = c.serveLane(wait)
	}
}

// serveLane makes one round, with a wait for one lane. It returns the wait of the next round, and 0 when the lanes are
// empty.
func (c *Committer[K, Q, R]) serveLane(wait time.Duration) (next time.Duration) {
	release := permit(c.forLanes)
	defer release()
	glances := maxGlances
	c.commitFree(c.takeLanes(), &glances)

	group, lockWait := c.takeLane(wait)
	if lockWait == 0 {
		return 0
	}
	begin := time.Now()
	if c.try(group, Attempt{LockWait: lockWait}, nil, nil) {
		return briefWait
	}
	c.pause(begin, lockWait)
	return min(2*wait, longestWait)
}

// pause ends a try of a lane that began at a time and found its key held. No statement waits for a lease or a claim:
// the next try for a lease is [Lease.RetryWait] later, for anything else when the wait for a row would have ended.
func (c *Committer[K, Q, R]) pause(begin time.Time, wait time.Duration) {
	if l := c.cfg.Lease; l != nil {
		begin, wait = time.Now(), min(l.RetryWait/2+rand.N(l.RetryWait), c.cfg.LockTimeout)
	}
	<-time.After(wait - time.Since(begin))
}

// takeLanes takes the requests of all lanes, as far as they fit into a group, and marks them sent. With one lane it
// takes none: whether its row is free is found out by waiting for it.
func (c *Committer[K, Q, R]) takeLanes() (group []*call[K, Q, R]) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.expire()
	if len(c.turns) < 2 {
		return nil
	}
	turns, bytes := c.turns, 0
	if c.cfg.MaxKeys > 0 {
		turns = turns[:min(len(turns), c.cfg.MaxKeys)]
	}
	for _, key := range turns {
		group = c.takeFrom(c.lanes[key], group, &bytes)
	}
	c.markSent(group)
	return group
}

// takeLane takes the requests of the lane whose turn it is, and returns how long to wait for its row: at most wait, and
// not beyond its first caller's LockTimeout. When there is no lane it ends the service and returns no wait.
func (c *Committer[K, Q, R]) takeLane(wait time.Duration) (group []*call[K, Q, R], lockWait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.expire()
	if len(c.turns) == 0 {
		c.lanesServe = false
		return nil, 0
	}

	key := c.turns[0]
	c.turns = append(c.turns[1:], key)
	l := c.lanes[key]
	remaining := c.cfg.LockTimeout - time.Since(l.calls[0].since)
	bytes := 0
	group = c.takeFrom(l, nil, &bytes)
	c.markSent(group)

	// Not shorter than the brief wait, or callers whose time runs out one after the other would keep the others from
	// ever standing in line at the server.
	return group, max(min(wait, remaining), briefWait)
}

// takeFrom moves callers of a lane to a group, as far as they fit. The lane keeps its turn. The caller holds c.mu.
func (c *Committer[K, Q, R]) takeFrom(l *lane[K, Q, R], group []*call[K, Q, R], bytes *int) []*call[K, Q, R] {
	for len(l.calls) > 0 && len(group) < maxItems {
		w := l.calls[0]
		*bytes += c.cfg.Size(w.request)
		if len(group) > 0 && *bytes > maxBytes {
			return group
		}
		l.calls = l.calls[1:]
		group = append(group, w)
	}
	return group
}

// expire answers the callers whose LockTimeout is over with ErrLocked, and removes them, those that have left, and
// empty lanes. The caller holds c.mu.
func (c *Committer[K, Q, R]) expire() {
	now := time.Now()
	c.turns = slices.DeleteFunc(c.turns, func(key K) bool {
		l := c.lanes[key]
		l.calls = slices.DeleteFunc(l.calls, func(w *call[K, Q, R]) bool {
			if w.state != finished && now.Sub(w.since) >= c.cfg.LockTimeout {
				c.lockedOut(w)
			}
			return w.state == finished
		})
		if len(l.calls) > 0 {
			return false
		}

		l.inTurn, l.until = false, now.Add(c.cfg.LockTimeout)
		c.metrics.slow.Dec()
		return true
	})
}

// lockedOut answers a call in a lane whose LockTimeout is over. The caller holds c.mu.
func (c *Committer[K, Q, R]) lockedOut(w *call[K, Q, R]) {
	c.addWaiting(-1)
	if c.cfg.Held {
		c.cfg.Contention.Conflict(contention.QueueTimeout)
	} else {
		c.metrics.gaveUp.Inc()
	}
	c.finish(w, answer[R]{err: ErrLocked})
}
