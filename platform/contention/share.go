package contention

import (
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrCrowded means that another session holds the request's lock, and that as many requests of the replica as may wait
// for such locks do already. The request was surely not applied.
var ErrCrowded = errors.New("contention: too many requests wait for locks that other sessions hold")

// Share bounds how many requests of a replica may wait, over all keys together, for locks that are known to be held by
// other sessions. Without it the callers of one locked row would take every request slot of the replica. A nil Share
// bounds nothing.
type Share struct {
	free    atomic.Int64
	metrics *Metrics
}

// NewShare returns a share of a quarter of maxInFlight places, at least one. It counts refusals in m, which may be nil.
func NewShare(maxInFlight int, m *Metrics) *Share {
	s := &Share{metrics: m}
	s.free.Store(int64(max(maxInFlight/4, 1)))
	return s
}

// Take takes a place and reports whether one was free. The caller that got one must call Give, once.
func (s *Share) Take() bool {
	if s == nil {
		return true
	}
	for {
		free := s.free.Load()
		if free <= 0 {
			s.metrics.Conflict(Crowded)
			return false
		}
		if s.free.CompareAndSwap(free, free-1) {
			return true
		}
	}
}

// Give returns a place.
func (s *Share) Give() {
	if s != nil {
		s.free.Add(1)
	}
}

// Free returns the number of free places.
func (s *Share) Free() int { return int(s.free.Load()) }

// Problem returns the API's answer to ErrCrowded, or nil for any other error.
func Problem(err error) *problem.Error {
	if !errors.Is(err, ErrCrowded) {
		return nil
	}
	return problem.Overloaded.New("The record is locked, and as many requests as may wait for locked records do already. "+
		"Nothing was applied; try again.", problem.Cause(err))
}
