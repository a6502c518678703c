package load

import (
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tally counts what became of all requests of a run, the warm-up and the stragglers after the window included: this is
// the side of the sum check that the generator knows.
type Tally struct {
	// Acknowledged requests were answered with a 2xx status.
	Acknowledged int64 `json:"acknowledged"`
	// Refused requests surely had no effect: any other status, or the dial failed.
	Refused int64 `json:"refused"`
	// Unknown requests may have had their effect: status 500 (OUTCOME_UNKNOWN), 502 or 504 (payments: the processor may
	// have charged), or the connection broke after the request was sent.
	Unknown int64 `json:"unknown"`
}

// Result holds what one run measured.
type Result struct {
	// Tally covers the whole run; everything below covers the measured window alone.
	Tally Tally
	// Window is the length of the measured window.
	Window time.Duration
	// Errors counts the requests that were not answered with a 2xx status: by the status, or by the failure that left
	// them without an answer.
	Errors map[string]int64
	// Latency of the successful requests in nanoseconds: from when each was due in an open loop, from its sending in a
	// closed one.
	Latency *hdrhistogram.Histogram

	mu sync.Mutex
}

// highestLatency bounds the histograms, which hold nanoseconds with three significant digits: a quantile is off by at
// most 0.1 %, and by 1 µs near zero.
const highestLatency = time.Hour

// NewHistogram returns an empty histogram of nanoseconds, from 1 µs to an hour.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(highestLatency), 3)
}

// add counts one request: answered with a status, or with a failure and no status. Measured ones belong to the window.
func (r *Result) add(status int, failure string, measured bool, latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	succeeded := status >= 200 && status < 300
	switch {
	case succeeded:
		r.Tally.Acknowledged++
	case status == 500, status == 502, status == 504, status == 0 && failure != FailureDial:
		r.Tally.Unknown++
	default:
		r.Tally.Refused++
	}
	switch {
	case !measured:
	case succeeded:
		// A value within the bounds is recorded without an error.
		_ = r.Latency.RecordValue(int64(min(latency, highestLatency)))
	case status != 0:
		r.Errors[strconv.Itoa(status)]++
	default:
		r.Errors[failure]++
	}
}
