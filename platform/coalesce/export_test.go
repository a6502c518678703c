package coalesce

// Known returns how many keys are known to be locked.
func (c *Coalescer[K, Q, R]) Known() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.locked)
}
