// Package load drives an HTTP/1.1 server and measures it.
//
// [Run] has two modes. The closed loop keeps every connection busy and finds the highest throughput; its latencies are
// the queueing that saturation causes. The open loop sends at a fixed rate whatever the server does and measures each
// latency from the moment the request was due, not from the moment it was sent, so that a stalled server cannot hide
// its stall by slowing the generator down ("coordinated omission", Gil Tene, HdrHistogram and wrk2).
//
// The generator usually shares its cores with the servers and the database that it measures, so its own CPU is kept
// small: requests are bytes made beforehand, each connection has its own goroutine, and fasthttp reads the responses.
// fasthttp's HostClient adds a third to the CPU of a request. Every connection has at most one request in flight:
// hardly any client pipelines.
package load

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// Config says what to send, where to and for how long.
type Config struct {
	// Targets are the addresses (host:port) of the servers. Connections are dealt to them in turn, so each gets an
	// equal share.
	Targets []string
	// Next returns a complete HTTP/1.1 request, body included, or nil to end the run. Many goroutines call it at once,
	// and what it returns is sent unless the run is canceled. See [Draw] and [Each].
	Next func() []byte
	// Connections is the number of connections over all targets, and so the most requests that can be in flight.
	Connections int
	// Rate is the number of requests a second of an open loop; 0 means a closed loop.
	Rate float64
	// Warmup precedes Duration and is left out of every figure but those of [Tally].
	Warmup time.Duration
	// Duration is the length of the measured window; 0 means that all is measured, until Next returns nil.
	Duration time.Duration
	// Timeout limits the time to an answer; 0 means 15 s. An answer may take a tenth longer before it counts as timed
	// out.
	Timeout time.Duration
}

const defaultTimeout = 15 * time.Second

// Draw returns a Config.Next that draws from the requests, each equally likely.
func Draw(requests [][]byte) func() []byte {
	return func() []byte { return requests[rand.IntN(len(requests))] }
}

// Each returns a Config.Next that returns every request once.
func Each(requests [][]byte) func() []byte {
	var dealt atomic.Int64
	return func() []byte {
		if i := dealt.Add(1); i <= int64(len(requests)) {
			return requests[i-1]
		}
		return nil
	}
}

// Run loads the targets for cfg.Warmup + cfg.Duration, waits for the answers still in flight, and returns what it
// measured.
//
// All connections are made before the clock starts; when one cannot be made, Run fails. Later a broken connection is
// counted and replaced. When ctx ends, no new request is sent, those in flight are waited for, and the error of ctx is
// returned with the result so far.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if len(cfg.Targets) == 0 || cfg.Connections < len(cfg.Targets) {
		return nil, fmt.Errorf("load: %d connections to %d targets", cfg.Connections, len(cfg.Targets))
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	p := &plan{Config: cfg}
	result := &Result{Errors: map[string]int64{}, Latency: NewHistogram()}
	workers := make([]*worker, cfg.Connections)
	defer func() {
		for _, w := range workers {
			w.drop()
		}
	}()

	// One after the other: a burst of hundreds can overflow a listen queue, and the repeated SYN costs a second.
	for i := range workers {
		workers[i] = &worker{plan: p, result: result, target: cfg.Targets[i%len(cfg.Targets)]}
		workers[i].response.Header.DisableNormalizing() // no header is looked up by name
		if err := workers[i].dial(ctx); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
	}

	var group sync.WaitGroup
	p.start = time.Now()
	for _, w := range workers {
		group.Go(func() { w.run(ctx) })
	}
	group.Wait()

	result.Window = cfg.Duration
	if cfg.Duration == 0 {
		result.Window = time.Since(p.start)
	}
	return result, context.Cause(ctx)
}

// plan says what to send next and when; all workers of a run share it. Times are on the clock of the run.
type plan struct {
	Config

	start time.Time
	dealt atomic.Int64 // turns of an open loop
}

func (p *plan) now() time.Duration { return time.Since(p.start) }

// next returns a request and when to send it, from where its latency counts; nil when the run is over.
//
// In an open loop a worker takes the next turn as soon as it is free, however late: when all connections are stalled
// the turns fall due unsent, and each of them later carries its wait in its latency.
func (p *plan) next(now time.Duration) (request []byte, due time.Duration) {
	due = now
	if p.Rate > 0 {
		due = time.Duration(float64(p.dealt.Add(1)-1) * float64(time.Second) / p.Rate)
	}
	if p.Duration > 0 && due >= p.Warmup+p.Duration {
		return nil, due
	}
	return p.Next(), due
}

// measured reports whether a request belongs to the measured window: in an open loop by when it was due, in a closed
// loop by when it was done.
func (p *plan) measured(due, done time.Duration) bool {
	at := done
	if p.Rate > 0 {
		at = due
	}
	return p.Duration == 0 || p.Warmup <= at && at < p.Warmup+p.Duration
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer.Reset(d)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	dialTimeout = 3 * time.Second
	readBuffer  = 8 << 10 // bounds the header of a response
)

// worker holds one keep-alive connection with at most one request in flight.
type worker struct {
	*plan

	result   *Result
	target   string
	conn     net.Conn // nil after it broke
	reader   *bufio.Reader
	response fasthttp.Response // its body is overwritten by the next one
	armed    time.Duration     // when the deadline was last set, on the clock of the run
}

// redialPause bounds the random pause after a dial that failed.
const redialPause = 200 * time.Millisecond

// run sends requests one after the other until the plan or ctx ends.
func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(0) // reused: an open loop waits before nearly every request
	defer timer.Stop()
	for now := w.now(); ctx.Err() == nil; {
		request, due := w.next(now)
		if request == nil || !sleep(ctx, timer, due-now) {
			return
		}
		if w.conn == nil && w.dial(ctx) != nil {
			w.result.add(0, FailureDial, w.measured(due, w.now()), 0)
			sleep(ctx, timer, rand.N(redialPause))
			now = w.now()
			continue
		}
		status, failure := w.roundTrip(request, max(now, due))
		now = w.now() // the next request of a closed loop is due at once
		w.result.add(status, failure, w.measured(due, now), now-due)
	}
}

func (w *worker) dial(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", w.target)
	if err != nil {
		return fmt.Errorf("dial %s: %w", w.target, err)
	}
	w.conn, w.reader, w.armed = conn, bufio.NewReaderSize(conn, readBuffer), -w.Timeout
	return nil
}

// drop closes the connection; what it may still have to say is of no use.
func (w *worker) drop() {
	if w != nil && w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// The failures: ways in which a request gets no HTTP answer. After FailureDial nothing was sent; after the others the
// outcome of the request is unknown.
const (
	FailureDial    = "dial"
	FailureTimeout = "timeout"
	FailureBroken  = "broken" // connection or answer
)

// roundTrip sends one request and returns the status of its response, or the failure. It drops the connection after a
// failure, and when the server asks for it.
func (w *worker) roundTrip(request []byte, now time.Duration) (status int, failure string) {
	// A new deadline for each request would cost as much as the rest of this function: it is renewed ten times per
	// timeout.
	if slack := w.Timeout / 10; now-w.armed > slack {
		_ = w.conn.SetDeadline(time.Now().Add(w.Timeout + slack)) // a broken connection shows below
		w.armed = now
	}

	_, err := w.conn.Write(request)
	if err == nil {
		err = w.response.Read(w.reader)
	}
	if err != nil || w.response.ConnectionClose() || w.reader.Buffered() > 0 {
		w.drop()
	}
	switch {
	case err == nil:
		return w.response.StatusCode(), ""
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded):
		return 0, FailureTimeout
	default:
		return 0, FailureBroken
	}
}

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
