package load

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func requests(paths ...string) [][]byte {
	all := make([][]byte, 0, len(paths))
	for _, path := range paths {
		all = append(all, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", path))
	}
	return all
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// drive drives servers by requests for /, unless the configuration has others.
func drive(t *testing.T, cfg Config, servers ...*httptest.Server) *Result {
	t.Helper()
	for _, server := range servers {
		cfg.Targets = append(cfg.Targets, server.Listener.Addr().String())
	}
	if cfg.Next == nil {
		cfg.Next = Draw(requests("/"))
	}
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A server that stops once for 400 ms makes every request that falls due meanwhile wait. A generator with coordinated
// omission would report one slow request per connection; this one must report them all, evenly from 400 ms down to
// nothing.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
	var gate sync.RWMutex
	var first atomic.Int64
	result := drive(t, Config{Connections: 4, Rate: 1000, Warmup: 100 * time.Millisecond, Duration: time.Second},
		serve(t, func(http.ResponseWriter, *http.Request) {
			if first.Add(1) == 300 {
				gate.Lock()
				time.Sleep(stall)
				gate.Unlock()
			}
			gate.RLock()
			defer gate.RUnlock()
		}))
	// The turns are fixed by the schedule, so their number is exact, not approximate.
	if result.Latency.TotalCount() != 1000 || result.Tally.Acknowledged != 1100 || len(result.Errors) > 0 {
		t.Errorf("%d measured, tally %+v, errors %v; want 1000, 1100, none",
			result.Latency.TotalCount(), result.Tally, result.Errors)
	}
	// 400 fall due during the stall: about 300 of them wait longer than 100 ms, about 100 longer than 300 ms.
	for longer, least := range map[time.Duration]int64{100 * time.Millisecond: 290, 300 * time.Millisecond: 90} {
		var waited int64
		for _, bar := range result.Latency.Distribution() {
			if bar.From >= int64(longer) {
				waited += bar.Count
			}
		}
		if waited < least {
			t.Errorf("%d requests waited longer than %v, want %d or more", waited, longer, least)
		}
	}
}

// Each request falls into the class that the sum check may believe: acknowledged, surely without effect, or unknown.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/made":
			w.WriteHeader(http.StatusCreated)
		case "/overloaded":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/unknown":
			w.WriteHeader(http.StatusInternalServerError)
		case "/charged":
			w.WriteHeader(http.StatusGatewayTimeout)
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half of")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/silent":
			<-r.Context().Done()
		}
	})
	paths := []string{
		"/", "/made", "/", "/overloaded", "/overloaded", "/unknown", "/charged", "/cut", "/half", "/", "/silent",
	}
	cfg := Config{Next: Each(slices.Repeat(requests(paths...), 3)), Connections: 2, Timeout: 500 * time.Millisecond}
	result := drive(t, cfg, target)
	if want := (Tally{Acknowledged: 12, Refused: 6, Unknown: 15}); result.Tally != want {
		t.Errorf("tally %+v, want %+v", result.Tally, want)
	}
	want := map[string]int64{"503": 6, "500": 3, "504": 3, FailureBroken: 6, FailureTimeout: 3}
	if !maps.Equal(result.Errors, want) {
		t.Errorf("errors %v, want %v", result.Errors, want)
	}
}
