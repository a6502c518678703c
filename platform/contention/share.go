package contention

import (
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrCrowded means that another session holds the request's lock, and too many requests of the replica are already
// waiting for such locks. The request was not applied.
var ErrCrowded = errors.New("contention: too many requests wait for locks that other sessions hold")

// Share bounds the requests of a replica that wait for locks of other sessions, per key and over all keys. Without it
// the callers of one locked row would take all permits of the replica; without the bound per key they would leave no
// room to callers of other locked rows. A nil *Share bounds nothing.
type Share struct {
	free    atomic.Int64
	perKey  int
	metrics *Metrics
}

// NewShare returns a Share that lets half of maxInFlight requests wait, and half of these for one key; at least one in
// each case. It counts refusals in m, which may be nil.
func NewShare(maxInFlight int, m *Metrics) *Share {
	s := &Share{perKey: max(maxInFlight/4, 1), metrics: m}
	s.free.Store(int64(max(maxInFlight/2, 1)))
	return s
}

// Take reports whether one more request may wait for a key that held requests already wait for. If so, the caller must
// call Give once.
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

// Give undoes one successful Take.
func (s *Share) Give() {
	if s != nil {
		s.free.Add(1)
	}
}

// Free returns how many more requests may wait.
func (s *Share) Free() int { return int(s.free.Load()) }

// Problem returns the API's answer to ErrCrowded, or nil for any other error.
func Problem(err error) *problem.Error {
	if !errors.Is(err, ErrCrowded) {
		return nil
	}
	return problem.Overloaded.New("The record is locked, or its database server does not answer, and too many requests "+
		"are already waiting for such records. Nothing was applied; try again.", problem.Cause(err))
}
