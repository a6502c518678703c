package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSaturatingCountsEveryAnswer(t *testing.T) {
	t.Parallel()

	var served [2]atomic.Int64

	count := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			served[i].Add(1)
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		}
	}

	result, err := Run(t.Context(), Config{
		Targets: []string{serve(t, count(0)), serve(t, count(1))}, Next: Draw(requests("/")), Connections: 8,
		Warmup: 50 * time.Millisecond, Duration: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}

	total := served[0].Load() + served[1].Load()
	if want := (Tally{Acknowledged: total}); result.Tally != want {
		t.Errorf("tally %+v, want %+v", result.Tally, want)
	}

	if served[0].Load() == 0 || served[1].Load() == 0 {
		t.Errorf("requests per target: %d and %d, want both to be used", served[0].Load(), served[1].Load())
	}

	if result.Latency.TotalCount() == 0 || result.Latency.TotalCount() >= total {
		t.Errorf("%d of %d requests fall into the window, want some", result.Latency.TotalCount(), total)
	}
}

func TestErrorsAreCountedByStatus(t *testing.T) {
	t.Parallel()

	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/overloaded":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/unknown":
			w.WriteHeader(http.StatusInternalServerError)
		case "/made":
			w.WriteHeader(http.StatusCreated)
		}
	})
	paths := slices.Concat(slices.Repeat([]string{"/"}, 10), slices.Repeat([]string{"/made"}, 5),
		slices.Repeat([]string{"/overloaded"}, 3), slices.Repeat([]string{"/unknown"}, 2))

	result, err := Run(t.Context(), Config{Targets: []string{target}, Next: Each(requests(paths...)), Connections: 4})
	if err != nil {
		t.Fatal(err)
	}

	if want := (Tally{Acknowledged: 15, Refused: 3, Unknown: 2}); result.Tally != want {
		t.Errorf("tally %+v, want %+v", result.Tally, want)
	}

	if want := map[string]int64{"503": 3, "500": 2}; !maps.Equal(result.Errors, want) {
		t.Errorf("errors %v, want %v", result.Errors, want)
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	t.Parallel()

	target := serve(t, func(http.ResponseWriter, *http.Request) {})

	result, err := Run(t.Context(), Config{
		Targets: []string{target}, Next: Draw(requests("/")), Connections: 16, Rate: 1000,
		Warmup: 100 * time.Millisecond, Duration: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}

	// The turns are fixed by the schedule, so their number is exact, not approximate.
	if result.Latency.TotalCount() != 500 || result.Tally.Acknowledged != 600 || len(result.Errors) > 0 {
		t.Errorf("%d measured, tally %+v, errors %v; want 500, 600, none",
			result.Latency.TotalCount(), result.Tally, result.Errors)
	}
}

// A server that stops once for 400 ms makes every request that falls due meanwhile wait. A generator with coordinated
// omission would report one slow request per connection; this one must report them all, evenly from 400 ms down to
// nothing.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	t.Parallel()

	const (
		rate  = 1000
		stall = 400 * time.Millisecond
	)

	var (
		gate  sync.RWMutex
		first atomic.Int64
	)

	target := serve(t, func(http.ResponseWriter, *http.Request) {
		if first.Add(1) == 300 {
			gate.Lock()
			time.Sleep(stall)
			gate.Unlock()
		}

		gate.RLock()
		defer gate.RUnlock()
	})

	cfg := Config{Targets: []string{target}, Next: Draw(requests("/")), Connections: 4, Rate: rate, Duration: time.Second}

	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}

	// Of the 1000 requests 400 fall due during the stall: about 300 of them wait longer than 100 ms, about 100 longer
	// than 300 ms.
	waited := func(longer time.Duration) int64 {
		var n int64
		for _, bar := range result.Latency.Distribution() {
			if bar.From >= int64(longer) {
				n += bar.Count
			}
		}

		return n
	}

	if got := waited(100 * time.Millisecond); got < 290 {
		t.Errorf("%d requests waited longer than 100 ms, want about 300", got)
	}

	if got := waited(300 * time.Millisecond); got < 90 {
		t.Errorf("%d requests waited longer than 300 ms, want about 100", got)
	}

	if got := time.Duration(result.Latency.Max()); got < stall-20*time.Millisecond {
		t.Errorf("longest latency %v, want about %v", got, stall)
	}

	// The same stall in a closed loop hits only what was in flight: this is the omission, and it shows that the figures
	// above are due to the open loop and not to a slow machine.
	first.Store(0)

	cfg.Rate = 0

	closed, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}

	result = closed
	if got := waited(300 * time.Millisecond); got > int64(cfg.Connections) {
		t.Errorf("closed loop: %d requests waited longer than 300 ms, want at most one per connection", got)
	}
}

func TestCutConnectionIsAnErrorAndIsRedialled(t *testing.T) {
	t.Parallel()

	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

	// Each connection answers three requests, then reads one more and breaks off in the middle of the answer or with a
	// reset.
	target := serveRaw(t, func(number int, connection net.Conn) error {
		for range 3 {
			if err := readRequest(connection); err != nil {
				return err
			}

			if _, err := io.WriteString(connection, answer); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}

		if err := readRequest(connection); err != nil {
			return err
		}

		if tcp, ok := connection.(*net.TCPConn); ok && number%2 == 1 {
			return tcp.SetLinger(0)
		}

		_, err := io.WriteString(connection, answer[:30])

		return err
	})

	result, err := oneByOne(t, target, 40)
	if err != nil {
		t.Fatal(err)
	}

	if want := (Tally{Acknowledged: 30, Unknown: 10}); result.Tally != want {
		t.Errorf("tally %+v, want %+v", result.Tally, want)
	}

	if result.Errors[FailureBroken] != 10 {
		t.Errorf("failures %v, want 10 cuts", result.Errors)
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()

	target := serveRaw(t, func(_ int, connection net.Conn) error {
		_, err := io.Copy(io.Discard, connection)

		return err
	})

	result, err := Run(t.Context(), Config{
		Targets: []string{target}, Next: Each(slices.Repeat(requests("/"), 6)), Connections: 3,
		Timeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}

	if want := (Tally{Unknown: 6}); result.Tally != want || result.Errors[FailureTimeout] != 6 {
		t.Errorf("tally %+v, failures %v; want %+v, all timeouts", result.Tally, result.Errors, want)
	}
}

func TestRefusedDialIsNotUnknown(t *testing.T) {
	t.Parallel()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	target := listener.Addr().String()

	go func() { // one connection, one answer that closes, then no server listens any more
		connection, err := listener.Accept()
		if err != nil {
			return
		}

		_ = listener.Close()
		_ = readRequest(connection)
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = connection.Close()
	}()

	result, err := oneByOne(t, target, 4)
	if err != nil {
		t.Fatal(err)
	}

	if want := (Tally{Acknowledged: 1, Refused: 3}); result.Tally != want || result.Errors[FailureDial] != 3 {
		t.Errorf("tally %+v, failures %v; want %+v, 3 dials", result.Tally, result.Errors, want)
	}

	if _, err := oneByOne(t, target, 1); err == nil {
		t.Error("a run without a server to begin with: no error")
	}
}

func TestEndOfContextStopsTheRun(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	target := serve(t, func(http.ResponseWriter, *http.Request) { cancel() })

	for _, rate := range []float64{0, 0.001} { // the second waits for a turn that is far away
		result, err := Run(ctx, Config{
			Targets: []string{target}, Next: Draw(requests("/")), Connections: 2, Rate: rate, Duration: time.Hour,
		})
		if err == nil {
			t.Errorf("rate %g: no error", rate)
		}

		if result != nil && result.Tally.Acknowledged == 0 {
			t.Errorf("rate %g: the answers so far are lost", rate)
		}
	}
}

func TestAnswersOfEveryFraming(t *testing.T) {
	t.Parallel()

	answers := []string{
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
		"SMTP ready\r\n\r\n",
	}

	// Each connection gives the answers in their order; the last two end it.
	target := serveRaw(t, func(number int, connection net.Conn) error {
		first := map[int]int{0: 0, 1: 3}[number]
		for _, answer := range answers[first:min(len(answers), first+3)] {
			if err := readRequest(connection); err != nil {
				return err
			}

			if _, err := io.WriteString(connection, answer); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}

		return nil
	})

	result, err := oneByOne(t, target, 4)
	if err != nil {
		t.Fatal(err)
	}

	if want := (Tally{Acknowledged: 3, Unknown: 1}); result.Tally != want || result.Errors[FailureBroken] != 1 {
		t.Errorf("tally %+v, failures %v; want %+v, one malformed", result.Tally, result.Errors, want)
	}
}
