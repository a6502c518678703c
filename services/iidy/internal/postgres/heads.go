package postgres

import (
	"sync"
	"time"
)

const (
	// longHead is how many rows that are not free a claim may pass at the start of a
	// list before the replica remembers where the free ones begin. Passing them
	// takes a millisecond or two.
	longHead = 2000
	// headFresh is how long it does: so long may an item before that place that
	// another replica has added or released, or whose lease is over, be overlooked
	// while there are free items behind it.
	headFresh = time.Second
	// maxHeads bounds the memory.
	maxHeads = 1024
)

// heads remembers where the free items of lists begin. Without it, each claim of a
// list that is worked on from its start walks over all that is claimed, and a list
// of n items costs n² steps; an index of what is free would cost every add.
//
// It is a hint: a claim that finds nothing behind the place looks from the start,
// and so does the first claim after headFresh. Short heads are never remembered.
type heads struct {
	mu    sync.Mutex
	lists map[string]head
}

type head struct {
	item string
	at   time.Time
}

// of is the item from which a claim may look; "" is the start.
func (h *heads) of(list string, now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.lists[list]
	if !ok || now.Sub(known.at) >= headFresh {
		return ""
	}
	return known.item
}

func (h *heads) remember(list, item string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lists == nil || len(h.lists) >= maxHeads {
		h.lists = make(map[string]head)
	}
	h.lists[list] = head{item, now}
}

// forget is for whoever has made an item free or added one.
func (h *heads) forget(list string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lists, list)
}
