package traces

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	// mark is in whatever the tests send that a service must keep to itself.
	mark = "Zq7MARKq7Z"
	// luhn is what a card number looks like (and is no card's).
	luhn = "4000056655665556"
	// card is the simulator's card that succeeds.
	card = "4242424242424242"
	// caller is the span that the tests' requests come from.
	caller = "00f067aa0ba902b7"
)

// service is one replica, or one worker, with what it has logged.
type service struct {
	name, api string
	set       *local.Set
	log       *log
}

// log keeps the lines of a replica.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) note(_ string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func (l *log) count(text string) (n int) {
	for _, line := range l.all() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// run starts a replica of a service, or of events' workers ("events-work").
func run(t *testing.T, name, dsn string, variables ...map[string]string) *service {
	t.Helper()
	s := &service{name: name, log: &log{}}
	binary, command, _ := strings.Cut(name, "-")
	spec := local.Spec{Service: name, Path: localtest.Binary(t, binary), Line: s.log.note, NoAPI: command == "work"}
	if command != "" {
		spec.Args = []string{command}
	}
	all := map[string]string{"FINGERPRINT_SECRET": "a secret of the tests, long enough", "SHUTDOWN_DELAY": "0s"}
	for _, some := range variables {
		maps.Copy(all, some)
	}
	s.set = localtest.Start(t, 1, spec, dsn, all)
	s.api = "http://" + s.set.Replicas()[0].Status().API
	return s
}

// request is what is sent; its trace is a new one, and sampled, unless it has headers of its own.
type request struct {
	method, path, body string
	header             map[string]string
}

// answer is what came of a request.
type answer struct {
	status int
	trace  string // that the request was part of
	body   string
	took   time.Duration
}

func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Second}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 15 * time.Second}
}

func (s *service) send(t *testing.T, c *http.Client, r request) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.api+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Error(err)
		return answer{}
	}
	a := answer{trace: newTrace()}
	req.Header.Set("Traceparent", "00-"+a.trace+"-"+caller+"-01")
	req.Header.Set("Tracestate", "rowlock-test=1")
	req.Header.Set("Accept", "application/json") // iidy would answer in words
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for key, value := range r.header {
		req.Header.Set(key, value)
	}
	begin := time.Now()
	resp, err := c.Do(req)
	a.took = time.Since(begin)
	if err != nil {
		t.Errorf("%s %s: %v", r.method, r.path, err)
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", r.method, r.path, err)
	}
	a.status, a.body = resp.StatusCode, string(raw)
	return a
}

// metric reads a series of the replica.
func (s *service) metric(t *testing.T, series string) (v float64) {
	t.Helper()
	admin := service{name: s.name, api: "http://" + s.set.Replicas()[0].Status().Admin}
	page := admin.send(t, client(t), requestOf(http.MethodGet, "/metrics", "")).body
	_, rest, found := strings.Cut(page, "\n"+series+" ")
	if _, err := fmt.Sscan(rest, &v); err != nil || !found {
		t.Errorf("/metrics has no %s: %v", series, err)
	}
	return v
}

func newTrace() string {
	var id [16]byte
	for i := range id {
		id[i] = byte(rand.IntN(256))
	}
	id[0] |= 1
	return hex.EncodeToString(id[:])
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	const within = 20 * time.Second
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within %s: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// traceOf waits until the request's own span has arrived, which ends last, and
// returns the whole trace.
func traceOf(t *testing.T, c *collector.Collector, trace string) []collector.Span {
	t.Helper()
	eventually(t, "the span of the request in trace "+trace, func() bool {
		for _, s := range c.Trace(trace) {
			if s.Parent == caller {
				return true
			}
		}
		return false
	})
	return c.Trace(trace)
}

// stop ends a replica by SIGTERM; its end must be a clean one.
func (s *service) stop(t *testing.T) (took time.Duration) {
	t.Helper()
	begin := time.Now()
	if err := s.set.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stop %s: %v", s.name, err)
	}
	return time.Since(begin)
}

// problemOf reads the members that the tests look at of an error's body, be it
// problem+json or Connect's.
func problemOf(t *testing.T, body string) (code, trace string) {
	t.Helper()
	var doc struct {
		Code    string `json:"code"`
		TraceID string `json:"trace_id"` //nolint:tagliatelle // RFC 9457's neighbours
		Details []struct {
			Debug struct {
				Reason   string            `json:"reason"`
				Metadata map[string]string `json:"metadata"`
			} `json:"debug"`
		} `json:"details"`
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&doc); err != nil {
		t.Errorf("%q is no problem: %v", body, err)
	}
	for _, d := range doc.Details {
		if d.Debug.Reason != "" {
			return d.Debug.Reason, d.Debug.Metadata["trace_id"]
		}
	}
	return doc.Code, doc.TraceID
}
