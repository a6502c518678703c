package auth

import "time"

// Expire makes g's keys old enough to be fetched again.
func (g *Guard) Expire() {
	g.keys.mu.Lock()
	defer g.keys.mu.Unlock()
	g.keys.tried, g.keys.fetched = time.Time{}, time.Time{}
}
