package coalesce

import (
	"runtime"
	"time"
)

const (
	// comeBack is how long callers are waited for after their answers: enough for a client
	// nearby to send its next request.
	comeBack = time.Millisecond
	// comeBackToGate is how long those of a Gate are waited for: they come back as a whole, for which a client nearby and
	// this process have to work longer.
	comeBackToGate = 2 * time.Millisecond
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
	if c.cfg.InFlight > 1 || c.queued() == 0 {
		return
	}
	full, wait := c.gate.await(&c.patience)
	if full == nil {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-full:
		c.gate.allCame(&c.patience)
	case <-timer.C:
		c.gate.giveUp(&c.patience)
	}
}

// yield yields the processor as long as that brings callers into the main queue.
// Goroutines that are ready to run belong to requests that have just arrived, or to callers
// that have just been answered: run before the group is taken, they make it larger instead
// of waiting for the next one. Where none is ready a yield returns at once.
func (c *Coalescer[K, Q, R]) yield() {
	for before := -1; ; {
		waiting := c.queued()
		if waiting <= before || waiting >= c.cfg.MaxItems {
			return
		}
		before = waiting
		runtime.Gosched()
	}
}

// queued returns the length of the main queue.
func (c *Coalescer[K, Q, R]) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.len()
}

// countQueue tells the gate how the main queue has changed. The caller holds c.mu.
func (c *Coalescer[K, Q, R]) countQueue() {
	n := c.queue.len()
	c.gate.count(n - c.counted)
	c.counted = n
}

// crowd holds the callers that the next group waits for. Clients that send one request
// after the other come back as soon as they are answered. A group that is taken at once
// has only those that came while the last one ran, and from then on two halves take turns,
// each with a statement and a commit of its own. So the next group waits, for comeBack at
// most, until as many callers are there as were answered or waiting when the last one
// ended: in the main queue, or in those of all coalescers of a Gate.
//
// Where several groups may be in flight, none waits: the next one keeps the database busy.
// The fields are guarded by Gate.mu.
type crowd struct {
	waiting int           // callers in the main queues
	size    int           // callers that are expected
	until   time.Time     // when they are not waited for any more
	full    chan struct{} // closed when all have come; nil: no goroutine waits
}

// patience decides whether a coalescer's groups wait. After a wait in vain, for which fewer than half of those came
// that were missing, the next groups do not: each time twice as many. The fields are guarded by Gate.mu.
type patience struct {
	skip int // groups that are taken without a wait
	vain int // waits in vain in a row
	half int // how many have to come for a wait that is not in vain
}

// count notes that so many callers more wait in the main queues.
func (g *Gate) count(more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.crowd.waiting += more
	if c := &g.crowd; c.full != nil && c.waiting >= c.size {
		close(c.full)
		c.full = nil
	}
}

// expect notes that so many callers were answered, and that the next group waits for them and those that wait, but not
// for more than most.
func (g *Gate) expect(answered, most int) {
	within := comeBack
	if g.turn != nil {
		within = comeBackToGate
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.crowd.size, g.crowd.until = min(answered+g.crowd.waiting, most), time.Now().Add(within)
}

// await returns a channel that is closed when all have come, and how long to wait for it; nil when they have or are not
// to be waited for.
func (g *Gate) await(p *patience) (full <-chan struct{}, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.crowd
	wait = time.Until(c.until)
	switch {
	case wait <= 0, c.waiting >= c.size, c.size > maxCrowd:
		return nil, 0
	case p.skip > 0:
		p.skip--
		return nil, 0
	}
	c.full, p.half = make(chan struct{}), (c.waiting+c.size+1)/2
	return c.full, wait
}

// allCame ends a wait for which all have come.
func (g *Gate) allCame(p *patience) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.vain = 0
}

// giveUp ends a wait whose time is over.
func (g *Gate) giveUp(p *patience) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.crowd.full = nil
	if g.crowd.waiting >= p.half {
		p.vain = 0
		return
	}
	p.skip = min(1<<p.vain, maxSkip)
	if p.skip < maxSkip {
		p.vain++
	}
}
