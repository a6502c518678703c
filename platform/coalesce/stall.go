package coalesce

import "slices"

// stall notes that the server has not answered a statement of c in time. As long as there is such a statement, those
// that wait for the next one, and those that come, need a place of Limits.Share each.
func (c *Coalescer[K, Q, R]) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late++; c.late <= 0 {
		return // it has ended in the moment when it became late
	}
	waiting := slices.Concat(c.queue.items[c.queue.head:], c.probes)
	for _, k := range c.locked {
		waiting = append(waiting, k.behind...) // those in the slow lane have a place
	}
	for _, w := range waiting {
		if w.state == queued {
			c.takePlaceOf(&c.stalledPlaces, w)
		}
	}
}

// unstall notes that a statement which was late has ended.
func (c *Coalescer[K, Q, R]) unstall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late--
}
