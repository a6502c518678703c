package load

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms hold nanoseconds with three significant digits, so a quantile is off by at most 0.1 %, and by 1 µs near zero.
const (
	lowestLatency  = int64(time.Microsecond)
	highestLatency = int64(time.Hour)
	digits         = 3
)

// shards keeps the workers from queueing for one histogram without giving each of hundreds of connections one of its own: that would
// be some 50 MB of cold cache lines.
const shards = 4

// Failure is a way in which a request gets no HTTP answer.
type Failure string

// The closed set of failures. After FailureDial nothing was sent; after the others the outcome of the request is unknown.
const (
	FailureDial      Failure = "dial"
	FailureCut       Failure = "cut"
	FailureTimeout   Failure = "timeout"
	FailureMalformed Failure = "malformed"
)

func failureOf(err error) Failure {
	switch {
	case errors.Is(err, errTimeout):
		return FailureTimeout
	case errors.Is(err, errMalformed):
		return FailureMalformed
	default:
		return FailureCut
	}
}

// Tally counts what became of all requests of a run, the warm-up and the stragglers after the window included: this is the side of the
// sum check that the generator knows.
type Tally struct {
	// Acknowledged requests were answered with a 2xx status.
	Acknowledged int64 `json:"acknowledged"`
	// Refused requests surely had no effect: another status than 2xx and 500, or the dial failed.
	Refused int64 `json:"refused"`
	// Unknown requests may have had their effect: status 500 (OUTCOME_UNKNOWN), or the connection broke after the request was sent.
	Unknown int64 `json:"unknown"`
}

func (t *Tally) add(other Tally) {
	t.Acknowledged += other.Acknowledged
	t.Refused += other.Refused
	t.Unknown += other.Unknown
}

// counters belong to one worker and are added up when all have ended, so they need no lock.
type counters struct {
	tally    Tally
	measured int64             // 2xx in the window
	statuses map[int]int64     // other statuses in the window
	failures map[Failure]int64 // in the window
	redials  int64
}

func newCounters() *counters {
	return &counters{statuses: map[int]int64{}, failures: map[Failure]int64{}}
}

func (c *counters) answered(status int, measured bool) {
	switch {
	case status >= 200 && status < 300:
		c.tally.Acknowledged++

		if measured {
			c.measured++
		}

		return
	case status == 500:
		c.tally.Unknown++
	default:
		c.tally.Refused++
	}

	if measured {
		c.statuses[status]++
	}
}

func (c *counters) failed(failure Failure, measured bool) {
	if failure == FailureDial {
		c.tally.Refused++
	} else {
		c.tally.Unknown++
	}

	if measured {
		c.failures[failure]++
	}
}

// recorder gathers latencies from all workers.
type recorder struct {
	shards [shards]struct {
		mu       sync.Mutex
		latency  *hdrhistogram.Histogram
		lateness *hdrhistogram.Histogram
		_        [64]byte // neighbours in one cache line would share its contention
	}
}

func newRecorder() *recorder {
	r := new(recorder)
	for i := range r.shards {
		r.shards[i].latency = newHistogram()
		r.shards[i].lateness = newHistogram()
	}

	return r
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestLatency, highestLatency, digits)
}

// record takes the latency of one measured request and how late it was sent, both in nanoseconds.
func (r *recorder) record(worker int, latency, lateness int64) error {
	s := &r.shards[worker%shards]
	s.mu.Lock()
	defer s.mu.Unlock()

	return errors.Join(s.latency.RecordValue(min(latency, highestLatency)), s.lateness.RecordValue(min(lateness, highestLatency)))
}

func (r *recorder) merge() (latency, lateness *hdrhistogram.Histogram) {
	latency, lateness = newHistogram(), newHistogram()
	for i := range r.shards {
		latency.Merge(r.shards[i].latency)
		lateness.Merge(r.shards[i].lateness)
	}

	return latency, lateness
}
