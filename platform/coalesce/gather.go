package coalesce

import (
	"runtime"
	"time"
)

const (
	// comeBack is how long callers are waited for after their answers: enough for a client
	// nearby to send its next request.
	comeBack = time.Millisecond
	// maxCrowd is the largest crowd that is waited for: more callers make large groups
	// anyway, and need longer to come back.
	maxCrowd = 32
	// maxSkip bounds the groups that do not wait after a wait in vain.
	maxSkip = 256
)

// gather lets callers join the group that is about to be taken: those that are ready to
// run, and then those that are expected.
func (c *Coalescer[K, Q, R]) gather() {
	c.yield()
	c.mu.Lock()
	var full <-chan struct{}
	wait := time.Until(c.crowd.until)
	if c.cfg.InFlight == 1 && !c.queue.empty() && wait > 0 {
		full = c.crowd.await(c.queue.len())
	}
	c.mu.Unlock()
	if full == nil {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
		c.mu.Lock()
		c.crowd.giveUp(c.queue.len())
		c.mu.Unlock()
	}
}

// yield yields the processor as long as that brings callers into the main queue.
// Goroutines that are ready to run belong to requests that have just arrived, or to callers
// that have just been answered: run before the group is taken, they make it larger instead
// of waiting for the next one. Where none is ready a yield returns at once.
func (c *Coalescer[K, Q, R]) yield() {
	for before := -1; ; {
		c.mu.Lock()
		waiting := c.queue.len()
		c.mu.Unlock()
		if waiting <= before || waiting >= c.cfg.MaxItems {
			return
		}
		before = waiting
		runtime.Gosched()
	}
}

// crowd decides whether the next group waits for callers. Clients that send one request
// after the other come back as soon as they are answered. A group that is taken at once
// has only those that came while the last one ran, and from then on two halves take turns,
// each with a statement and a commit of its own. So the next group waits, for comeBack at
// most, until as many callers are there as were answered or waiting when the last one
// ended. After a wait in vain, for which fewer than half of those came that were missing,
// the next groups do not wait: each time twice as many.
//
// Where several groups may be in flight, none waits: the next one keeps the database busy.
// The fields are guarded by Coalescer.mu.
type crowd struct {
	size  int           // callers that are expected
	until time.Time     // when they are not waited for any more
	skip  int           // groups that are taken without a wait
	vain  int           // waits in vain in a row
	half  int           // how many have to come for a wait that is not in vain
	full  chan struct{} // closed when all have come; nil: no goroutine waits
}

// expect notes that so many callers were answered or are waiting.
func (c *crowd) expect(size int) {
	c.size, c.until = size, time.Now().Add(comeBack)
}

// await returns a channel that is closed when all have come, or nil when they have or are
// not to be waited for.
func (c *crowd) await(waiting int) <-chan struct{} {
	switch {
	case waiting >= c.size || c.size > maxCrowd:
		return nil
	case c.skip > 0:
		c.skip--
		return nil
	}
	c.full, c.half = make(chan struct{}), (waiting+c.size+1)/2
	return c.full
}

// arrived notes how many callers wait.
func (c *crowd) arrived(waiting int) {
	if c.full != nil && waiting >= c.size {
		close(c.full)
		c.full, c.vain = nil, 0
	}
}

// giveUp ends a wait whose time is over.
func (c *crowd) giveUp(waiting int) {
	if c.full == nil {
		return // all have come at the same moment
	}
	if c.full = nil; waiting >= c.half {
		c.vain = 0
		return
	}
	c.skip = min(1<<c.vain, maxSkip)
	if c.skip < maxSkip {
		c.vain++
	}
}
