package groupcommit

import (
	"runtime"
	"time"
)

const (
	// comeBack bounds the wait for callers that were just answered: enough for a client nearby to send its next
	// request.
	comeBack = time.Millisecond
	// maxCrowd is the largest crowd that is waited for. More callers make large groups anyway, and need longer to come.
	maxCrowd = 32
	// maxSkip bounds the groups that do not wait after a wait in vain.
	maxSkip = 256
)

// crowd holds the callers that the next group waits for. Clients that send one request after the other come back as
// soon as they are answered. A group that is taken at once has only those that came while the last one was under way,
// and from then on two halves take turns, each with its own commit. So the next group waits, for comeBack at most,
// until as many are in the queue as were answered or waiting when the last one ended. After a wait for which fewer than
// half of the missing came, the next groups do not wait, each time twice as many. Where several groups may be under way
// none waits: the next one keeps the database busy. It changes only under Committer.mu.
type crowd struct {
	size  int           // callers that are expected
	until time.Time     // when they are not waited for any more
	full  chan struct{} // closed when all have come; nil: no group waits

	skip int // groups that do not wait
	vain int // waits in vain in a row
	half int // how many have to come for a wait that is not in vain
}

// expect notes that so many callers were answered while others waited. The next group waits for all of them.
func (w *crowd) expect(answered, waiting, most int) {
	w.size, w.until = min(answered+waiting, most), time.Now().Add(comeBack)
}

// came notes how many callers are in the queue.
func (w *crowd) came(waiting int) {
	if w.full != nil && waiting >= w.size {
		close(w.full)
		w.full = nil
	}
}

// await returns a channel that is closed when all have come, and how long to wait for it, or nil when no caller is to
// be waited for.
func (w *crowd) await(waiting int) (full <-chan struct{}, wait time.Duration) {
	wait = time.Until(w.until)
	if wait <= 0 || waiting == 0 || waiting >= w.size || w.size > maxCrowd {
		return nil, 0
	}
	if w.skip > 0 {
		w.skip--
		return nil, 0
	}
	w.full, w.half = make(chan struct{}), (waiting+w.size+1)/2
	return w.full, wait
}

// over ends a wait after which so many callers are in the queue.
func (w *crowd) over(waiting int) {
	w.full = nil
	if waiting >= w.half {
		w.vain = 0
		return
	}
	w.skip = min(1<<w.vain, maxSkip)
	if w.skip < maxSkip {
		w.vain++
	}
}

// gather lets callers join the group that is about to be taken: those that are ready to run, and then those that are
// expected.
func (c *Committer[K, Q, R]) gather() {
	c.yield()
	if c.cfg.InFlight > 1 {
		return
	}

	c.mu.Lock()
	full, wait := c.crowd.await(c.queue.len())
	c.mu.Unlock()
	if full == nil {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.crowd.over(c.queue.len())
}

// yield yields the processor as long as that brings callers into the queue. Goroutines that are ready to run belong to
// requests that have just arrived, or to callers that have just been answered: run before the group is taken, they make
// it larger instead of waiting for the next one. Where none is ready a yield returns at once.
func (c *Committer[K, Q, R]) yield() {
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
