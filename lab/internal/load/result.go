package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what one run measured.
type Result struct {
	// Tally covers the whole run; everything below covers the measured window alone.
	Tally Tally
	// Window is the length of the measured window.
	Window time.Duration
	// Succeeded counts the requests answered with a 2xx status.
	Succeeded int64
	// Statuses counts the other answers by status.
	Statuses map[int]int64
	// Failures counts the requests without an answer.
	Failures map[Failure]int64
	// Redials counts the connections that had to be made anew, in the whole run.
	Redials int64
	// Latency of the successful requests in nanoseconds: from when each was due in an open loop, from its sending in a saturating run.
	Latency *hdrhistogram.Histogram
	// Lateness is how long after it was due each of them was sent, in nanoseconds. It is part of Latency. High values with a quick
	// server mean that the generator itself could not keep up.
	Lateness *hdrhistogram.Histogram
	// CPU is what this process used in the window, user and system.
	CPU time.Duration
}

// Errors counts the requests of the window that were not answered with a 2xx status.
func (r *Result) Errors() int64 {
	var n int64
	for _, count := range r.Statuses {
		n += count
	}

	for _, count := range r.Failures {
		n += count
	}

	return n
}

// Throughput is the number of successful requests per second.
func (r *Result) Throughput() float64 {
	if r.Window <= 0 {
		return 0
	}

	return float64(r.Succeeded) / r.Window.Seconds()
}

// CPUPerRequest is the CPU that this process used for one request, answered or not; 0 when there was none.
func (r *Result) CPUPerRequest() time.Duration {
	requests := r.Succeeded + r.Errors()
	if requests == 0 {
		return 0
	}

	return r.CPU / time.Duration(requests)
}
