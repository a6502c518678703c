package groupcommit

import (
	"runtime"
	"sync"
	"time"
)

const (
	// comeBack bounds the wait for callers that were just answered: enough for a client nearby to send its next
	// request.
	comeBack = time.Millisecond
	// comeBackToPipeline is longer: the callers of a pipeline come back all together.
	comeBackToPipeline = 2 * time.Millisecond
	// maxCrowd is the largest crowd that is waited for. More callers make large groups anyway, and need longer to come.
	maxCrowd = 32
	// maxSkip bounds the groups that do not wait after a wait in vain.
	maxSkip = 256
)

// longestTurn bounds how long a group keeps a pipeline's turn. One that waits for a lock delays the others no longer.
const longestTurn = 10 * time.Millisecond

// Pipeline joins committers that are the stages of one request, such as a claim and its settlement. One of them sends a
// group at a time, and the next group waits for the callers of all stages. Otherwise each stage soon has a part of the
// callers, and while it sends a small group the others gather small ones. Lanes take no turns.
//
// Clients that send one request after the other come back as soon as they are answered. A group that is taken at once
// has only those that came while the last one was under way, and from then on two halves take turns, each with its own
// commit. So the next group waits, for comeBack at most, until as many are in the queues as were answered or waiting
// when the last one ended: with 16 callers, of which 10 are answered while 6 wait, for 16. Where several groups may be
// under way none waits: the next one keeps the database busy.
type Pipeline struct {
	turn chan struct{} // holds an element while a turn lasts; nil: there is one stage

	mu      sync.Mutex
	waiting int           // callers in the queues of all stages
	crowd   int           // callers that are expected
	until   time.Time     // when they are not waited for any more
	full    chan struct{} // closed when all have come; nil: no group waits
}

// NewPipeline returns a pipeline without stages.
func NewPipeline() *Pipeline { return &Pipeline{turn: make(chan struct{}, 1)} }

// enter waits for the turn and returns the function that ends it.
func (p *Pipeline) enter() (leave func()) {
	if p.turn == nil {
		return func() {}
	}
	p.turn <- struct{}{}
	return sync.OnceFunc(func() { <-p.turn })
}

// came adds callers that have come into a queue, or subtracts those that were taken from one.
func (p *Pipeline) came(callers int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.waiting += callers
	if p.full != nil && p.waiting >= p.crowd {
		close(p.full)
		p.full = nil
	}
}

// expect sets the callers that the next group waits for: those that are being answered now, and those that wait, as
// many as fit into a group.
func (p *Pipeline) expect(answered int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	within := comeBack
	if p.turn != nil {
		within = comeBackToPipeline
	}
	p.crowd, p.until = min(answered+p.waiting, maxItems), time.Now().Add(within)
}

// patience decides whether the groups of one committer wait. After a wait for which fewer than half of the missing
// came, the next groups do not wait, each time twice as many. It changes only under Pipeline.mu.
type patience struct {
	skip int // groups that do not wait
	vain int // waits in vain in a row
}

// await waits for the callers that are expected, if any are to be waited for.
func (p *Pipeline) await(own *patience) {
	p.mu.Lock()
	defer p.mu.Unlock()

	wait := time.Until(p.until)
	if wait <= 0 || p.waiting >= p.crowd || p.crowd > maxCrowd {
		return
	}
	if own.skip > 0 {
		own.skip--
		return
	}

	full, half := make(chan struct{}), (p.waiting+p.crowd+1)/2
	p.full = full
	p.mu.Unlock()
	select {
	case <-full:
	case <-time.After(wait):
	}

	p.mu.Lock()
	p.full = nil
	if p.waiting >= half {
		own.vain = 0
		return
	}
	own.skip = min(1<<own.vain, maxSkip)
	if own.skip < maxSkip {
		own.vain++
	}
}

// gather lets callers join the group that is about to be taken: those that are ready to run, and then those that are
// expected.
func (c *Committer[K, Q, R]) gather() {
	if waiting := c.yield(); waiting > 0 && c.cfg.InFlight == 1 {
		c.pipeline.await(&c.patience)
	}
}

// yield yields the processor as long as that brings callers into the queue. Goroutines that are ready to run belong to
// requests that have just arrived, or to callers that have just been answered: run before the group is taken, they make
// it larger instead of waiting for the next one. Where none is ready a yield returns at once. It returns how many
// callers are in the queue.
func (c *Committer[K, Q, R]) yield() (waiting int) {
	for before := -1; ; {
		c.mu.Lock()
		waiting = len(c.queue)
		c.mu.Unlock()

		if waiting <= before || waiting >= maxItems {
			return waiting
		}
		before = waiting
		runtime.Gosched()
	}
}
