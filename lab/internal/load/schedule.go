package load

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// clock counts nanoseconds since the start of a run, on the monotonic clock.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) }

// window is the measured part of a run, in nanoseconds of its clock; the end is not part of it.
type window struct{ from, to int64 }

func (w window) holds(at int64) bool { return w.from <= at && at < w.to }

// turn is one request to be sent.
type turn struct {
	request []byte
	due     int64 // when it should have been sent: latency counts from here
}

// schedule says what to send next and when; one is shared by all workers of a run.
type schedule interface {
	// next returns the next turn, or false when the run is over. The worker waits until turn.due before it sends.
	next(rng *rand.Rand) (turn, bool)
	// measured reports whether a request due and done at these times belongs to the measured window.
	measured(due, done int64) bool
}

// saturating is the closed loop: the next request is due when the worker is free.
type saturating struct {
	clock    clock
	window   window
	requests [][]byte
}

func (s *saturating) next(rng *rand.Rand) (turn, bool) {
	now := s.clock.now()

	return turn{request: s.requests[rng.IntN(len(s.requests))], due: now}, now < s.window.to
}

func (s *saturating) measured(_, done int64) bool { return s.window.holds(done) }

// openLoop deals turns at a fixed rate. A worker takes the next turn as soon as it is free, however late: when all connections are
// stalled the turns fall due unsent, and each of them later carries its wait in its latency.
type openLoop struct {
	window   window
	requests [][]byte
	interval float64 // nanoseconds between two requests
	dealt    atomic.Int64
}

func (o *openLoop) next(rng *rand.Rand) (turn, bool) {
	due := int64(float64(o.dealt.Add(1)-1) * o.interval)

	return turn{request: o.requests[rng.IntN(len(o.requests))], due: due}, due < o.window.to
}

func (o *openLoop) measured(due, _ int64) bool { return o.window.holds(due) }

// onceEach sends every request one time, as fast as the server answers.
type onceEach struct {
	clock    clock
	requests [][]byte
	dealt    atomic.Int64
}

func (o *onceEach) next(*rand.Rand) (turn, bool) {
	i := o.dealt.Add(1) - 1
	if i >= int64(len(o.requests)) {
		return turn{}, false
	}

	return turn{request: o.requests[i], due: o.clock.now()}, true
}

func (o *onceEach) measured(int64, int64) bool { return true }
