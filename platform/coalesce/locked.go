package coalesce

import (
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
)

// lockedKey holds what is known of a key whose row was found locked by another
// transaction. It outlives the key's callers by LockTimeout, or the next crowd would be
// let into the main lane before the lock is found again.
type lockedKey[K comparable, Q, R any] struct {
	callers []*call[K, Q, R] // in the slow lane and not sent, in order of arrival
	inTurn  bool             // the key is one of Coalescer.slowKeys
	asked   bool             // a statement of the slow lane waits for the row: it finds the row free at once
	probe   *call[K, Q, R]   // one of Coalescer.probes, or of their statement; nil: none has the key
	behind  []*call[K, Q, R] // came while the probe was on its way, in order of arrival
	places  int              // of Limits.Share that callers hold, those that were sent included
	until   time.Time        // when the key is forgotten if it has no callers
}

func (k *lockedKey[K, Q, R]) idle() bool { return !k.inTurn && k.probe == nil }

// known returns what is known of a locked key, or nil. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) known(key K) *lockedKey[K, Q, R] {
	k := c.locked[key]
	if k != nil && k.idle() && time.Now().After(k.until) {
		delete(c.locked, key)
		return nil
	}
	return k
}

// findLocked returns what is known of the first of the call's keys that is locked, and makes it the call's key, or
// returns nil. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) findLocked(w *call[K, Q, R]) *lockedKey[K, Q, R] {
	if len(c.locked) == 0 {
		return nil
	}
	key := c.cfg.Key(w.req)
	k := c.known(key)
	if k == nil && c.cfg.Others != nil {
		for _, key = range c.cfg.Others(w.req) {
			if k = c.known(key); k != nil {
				break
			}
		}
	}
	if k != nil {
		w.key = key
	}
	return k
}

// keyAt returns the key of a call that Answer.At names.
func (c *Coalescer[K, Q, R]) keyAt(w *call[K, Q, R], at int) K {
	if c.cfg.Others == nil || at == 0 {
		return c.cfg.Key(w.req)
	}
	return c.cfg.Others(w.req)[at-1]
}

// severalKeys reports whether the call locks several rows.
func (c *Coalescer[K, Q, R]) severalKeys(w *call[K, Q, R]) bool {
	return c.cfg.Others != nil && len(c.cfg.Others(w.req)) > 0
}

// severalKeysIn reports whether calls of several keys wait in the lane of a key. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) severalKeysIn(key K) bool {
	return c.cfg.Others != nil && slices.ContainsFunc(c.locked[key].callers, c.severalKeys)
}

// setLocked notes that the key's row is locked. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) setLocked(key K) *lockedKey[K, Q, R] {
	k := c.locked[key]
	if k == nil {
		if len(c.locked) >= c.cfg.Queue {
			c.forgetIdle()
		}
		k = new(lockedKey[K, Q, R])
		c.locked[key] = k
	}
	k.until = time.Now().Add(c.cfg.LockTimeout)
	return k
}

// forgetIdle bounds the memory of locked keys. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) forgetIdle() {
	for key, k := range c.locked {
		if k.idle() {
			delete(c.locked, key)
		}
	}
}

// enterLocked lets a call of a locked key wait in the slow lane, or refuses it. When no
// statement would find out that the row has come free, the call becomes that statement's
// only one, and those that come until its answer wait for it: a crowd that comes for a row
// that is free by now must not be refused. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) enterLocked(key K, k *lockedKey[K, Q, R], w *call[K, Q, R]) {
	switch {
	case k.asked:
		c.enterSlow(key, k, w)
		return
	case k.probe != nil:
		k.behind = append(k.behind, w)
		return
	}
	k.probe = w
	c.probes = append(c.probes, w)
	if !c.probing {
		c.probing = true
		go c.serveProbes()
	}
}

// enterSlow appends a call to the slow lane, if it has a place of Limits.Share or gets
// one; otherwise it answers ErrCrowded. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) enterSlow(key K, k *lockedKey[K, Q, R], w *call[K, Q, R]) {
	if c.takePlace(k, w) {
		k.callers = append(k.callers, w)
		c.startSlow(key, k)
	}
}

// takePlace gives a call a place of Limits.Share, unless it has one, or answers
// ErrCrowded. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) takePlace(k *lockedKey[K, Q, R], w *call[K, Q, R]) bool {
	w.slow = true
	return c.takePlaceOf(&k.places, w)
}

// takePlaceOf is takePlace for callers that hold so many places. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) takePlaceOf(held *int, w *call[K, Q, R]) bool {
	if w.place != nil {
		return true
	}
	if !c.cfg.Share.Take(*held) {
		c.addWaiting(-1, -w.items)
		c.finish(w, Answer[R]{Err: contention.ErrCrowded})
		return false
	}
	*held++
	w.place = held
	return true
}

// givePlace gives a call's place back, if it has one. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) givePlace(w *call[K, Q, R]) {
	if w.place != nil {
		*w.place--
		w.place = nil
		c.cfg.Share.Give()
	}
}

// serveProbes runs the probes until there are none. They skip locked rows, so they never
// wait, and have a goroutine of their own: neither the main lane nor a wait of the slow
// lane for another key delays them.
func (c *Coalescer[K, Q, R]) serveProbes() {
	for {
		c.mu.Lock()
		group, several := c.takeProbes()
		if len(group)+len(several) == 0 {
			c.probing = false
			c.signalIdle()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		c.probeSeveral(several)
		if len(group) == 0 {
			continue
		}
		answers, err := c.run(Pass{SkipLocked: true}, group)
		if errors.Is(err, ErrSplit) && len(group) > 1 {
			c.runEach(group)
		} else {
			c.distributeSlow(group, answers, err)
		}
		c.mu.Lock()
		for _, w := range group {
			c.endProbe(w, c.enterSlow)
		}
		c.mu.Unlock()
	}
}

// probeSeveral finds out for calls of several keys whether the row of their lane has come free. If so they go to the
// main lane: a statement for all their keys would lock the free rows of calls of which another row is locked.
func (c *Coalescer[K, Q, R]) probeSeveral(calls []*call[K, Q, R]) {
	if len(calls) == 0 {
		return
	}
	keys := make([]K, len(calls))
	for i, w := range calls {
		keys[i] = w.key
	}
	free, err := c.await(Pass{SkipLocked: true}, keys)
	if err != nil {
		free = nil // the wait in the slow lane finds out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range calls {
		k := c.locked[w.key]
		switch {
		case w.state == finished:
		case k == nil || slices.Contains(free, w.key):
			c.queueMain([]*call[K, Q, R]{w})
			c.endSlow(w.key)
		default:
			c.enterSlow(w.key, k, w)
		}
		c.endProbe(w, c.enterSlow)
	}
}

// takeProbes removes a group of probes and marks it sent, and those of several keys. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) takeProbes() (group, several []*call[K, Q, R]) {
	var l load
	for len(c.probes) > 0 {
		w := c.probes[0]
		switch {
		case w.state == finished:
			c.endProbe(w, c.enterLocked) // the next one behind it is the probe
		case c.severalKeys(w):
			several = append(several, w)
		case !c.fits(&l, w):
			c.markSent(group)
			return group, several
		default:
			group = append(group, w)
		}
		c.probes = c.probes[1:]
	}
	c.probes = nil
	c.markSent(group)
	return group, several
}

// endProbe lets another call probe the key of w, and those behind w enter, unless the row
// was found free. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) endProbe(w *call[K, Q, R], enter func(K, *lockedKey[K, Q, R], *call[K, Q, R])) {
	key := w.key
	k := c.locked[key]
	if k == nil || k.probe != w {
		return
	}
	behind := k.behind
	k.probe, k.behind = nil, nil
	for _, next := range behind {
		if next.state != finished {
			enter(key, k, next)
		}
	}
}
