package contention

import (
	"errors"
	"sync"

	"github.com/rowlock/rowlock/platform/problem"
)

// ErrCrowded means that another session holds the request's lock, and too many requests of the replica are already
// waiting for such locks. The request was not applied.
var ErrCrowded = errors.New("contention: too many requests wait for locks that other sessions hold")

// Share bounds the requests of a replica that wait for locks of other sessions, per key and over all keys. Without it
// the callers of one locked row would take all permits of the replica; without the bound per key they would leave no
// room to callers of other locked rows. A nil *Share bounds nothing.
type Share struct {
	metrics *Metrics
	perKey  int

	mu   sync.Mutex
	free int
	held map[any]int // by key
}

// NewShare returns a Share that lets half of maxInFlight requests wait, and a sixth of maxInFlight for one key; at
// least one in each case. Two locked keys, such as of an item and of its list, leave room for others. It counts
// refusals in m, which may be nil.
func NewShare(maxInFlight int, m *Metrics) *Share {
	return &Share{
		metrics: m, perKey: max(maxInFlight/6, 1), free: max(maxInFlight/2, 1), held: make(map[any]int),
	}
}

// Take reports whether one more request may wait for a key, which is of a comparable type. If so, the caller must call
// Give once.
func (s *Share) Take(key any) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.free == 0 || s.held[key] == s.perKey {
		s.metrics.Conflict(Crowded)
		return false
	}
	s.free--
	s.held[key]++
	return true
}

// Give undoes one successful Take.
func (s *Share) Give(key any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	s.free++
	s.held[key]--
	if s.held[key] == 0 {
		delete(s.held, key)
	}
}

// Problem returns the API's answer to ErrCrowded, or nil for any other error.
func Problem(err error) *problem.Error {
	if !errors.Is(err, ErrCrowded) {
		return nil
	}
	return problem.Overloaded.New("The record is locked, or its database server does not answer, and too many requests "+
		"are already waiting for such records. Nothing was applied; try again.", problem.Cause(err))
}
