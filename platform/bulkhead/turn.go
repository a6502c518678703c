package bulkhead

import (
	"slices"
	"sync"
)

// turn admits one caller at a time, the others in order of arrival. A channel would do, were it not for callers that
// look up from their wait: each time they would go to its end.
type turn struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{} // in order of arrival; one is closed when its caller has the turn
}

// take takes the turn, or returns a channel that is closed when the caller has it. A caller that waits no longer calls
// withdraw.
func (t *turn) take() (wait chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	wait = make(chan struct{})
	t.waiting = append(t.waiting, wait)
	return wait
}

// pass gives the turn to the next caller.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	close(t.waiting[0])
	t.waiting = t.waiting[1:]
}

// withdraw takes a caller out of the line. It returns false when the caller has the turn by now.
func (t *turn) withdraw(wait chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, wait)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return true
}
