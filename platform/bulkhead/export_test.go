package bulkhead

// Queues returns how many keys have a queue.
func (b *Bulkhead[K]) Queues() int { return len(b.queues) }
