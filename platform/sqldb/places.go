package sqldb

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"
)

// readPlaces bounds the reads that use the pool at one moment, so that they leave the rest
// of its connections to changes. Reads wait in order of arrival.
type readPlaces struct {
	taken chan struct{}

	waits  atomic.Int64 // reads that had to wait
	waited atomic.Int64 // how long, in nanoseconds
}

// newReadPlaces returns half as many places as the pool has connections, at least one.
func newReadPlaces(maxOpenConns int) *readPlaces {
	const share = 2
	return &readPlaces{taken: make(chan struct{}, max(maxOpenConns/share, 1))}
}

// enter waits for a place, until ctx ends at most, and returns ctx's error then. The
// caller must call leave after the read.
func (p *readPlaces) enter(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
	}
	p.waits.Add(1)
	begin := time.Now()
	defer func() { p.waited.Add(int64(time.Since(begin))) }()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *readPlaces) leave() { <-p.taken }

// addTo adds the waits for a place to those for a connection.
func (p *readPlaces) addTo(s sql.DBStats) sql.DBStats {
	s.WaitCount += p.waits.Load()
	s.WaitDuration += time.Duration(p.waited.Load())
	return s
}
