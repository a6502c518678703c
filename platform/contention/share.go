package contention

import (
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrCrowded means that another session holds the request's lock, and that as many requests of the replica as may wait
// for such locks do already. The request was surely not applied.
var ErrCrowded = errors.New("contention: too many requests wait for locks that other sessions hold")

// Share bounds how many requests of a replica may wait for locks that are known to be held by other sessions: for one
// lock, and over all locks together. Without it the callers of one locked row would take every request slot of the
// replica; and without the bound of one lock they would leave no place to those of another. A nil Share bounds nothing.
type Share struct {
	free    atomic.Int64
	perKey  int
	metrics *Metrics
}

// NewShare returns a share of half of maxInFlight places, half of these for the callers of one key, and at least one of
// each. It counts refusals in m, which may be nil.
func NewShare(maxInFlight int, m *Metrics) *Share {
	s := &Share{perKey: max(maxInFlight/4, 1), metrics: m}
	s.free.Store(int64(max(maxInFlight/2, 1)))
	return s
}

// Take takes a place for a caller of a key whose callers hold so many already, and reports whether it got one. The
// caller that did must call Give, once.
func (s *Share) Take(held int) bool {
	if s == nil {
		return true
	}
	for {
		free := s.free.Load()
		if free <= 0 || held >= s.perKey {
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
	return problem.Overloaded.New("The record is locked, or its database server does not answer, and as many requests "+
		"as may wait for that do already. Nothing was applied; try again.", problem.Cause(err))
}
