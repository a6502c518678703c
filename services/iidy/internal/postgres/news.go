package postgres

import (
	"sync"
	"time"
)

const (
	// barred is for how long a list is not expected to have only new items again once
	// that was wrong: a batch was inserted and rolled back, which leaves dead rows.
	barred = time.Minute
	// maxNews bounds the memory.
	maxNews = 1024
)

// news remembers the lists to which batches bring nothing but new items. An INSERT
// that need not reckon with conflicts costs half of one that does; where there is a
// conflict after all it fails as a whole and is made again the long way.
//
// It is a hint: whatever it says, each item is added once and counted once.
type news struct {
	mu    sync.Mutex
	lists map[string]time.Time // from when on new items alone are expected
}

// expected tells whether a batch of the list is likely to be all new.
func (n *news) expected(list string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	from, ok := n.lists[list]
	return ok && !now.Before(from)
}

// arrived notes a batch of nothing but new items.
func (n *news) arrived(list string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.lists[list]; !ok {
		n.set(list, now)
	}
}

// wrong notes that a batch was not what was expected.
func (n *news) wrong(list string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(list, now.Add(barred))
}

// set is under mu.
func (n *news) set(list string, from time.Time) {
	if n.lists == nil || len(n.lists) >= maxNews {
		n.lists = make(map[string]time.Time)
	}
	n.lists[list] = from
}
