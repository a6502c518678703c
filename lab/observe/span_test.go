package observe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// span is an exported span.
type span struct {
	trace, id, parent string // in hex; parent is empty for a root
	name, state       string // state is the W3C tracestate
	failed            bool
	begin             uint64
}

// collector receives the spans of a test.
type collector struct {
	url string

	mu       sync.Mutex
	exports  bytes.Buffer // as they came, headers included
	received []span       // only appended to
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// environ returns the variables of a process that exports to the collector soon.
func (c *collector) environ() map[string]string {
	return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
}

// ServeHTTP receives an export.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var export coltracepb.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, proto.Unmarshal(body, &export)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	_ = r.Header.Write(&c.exports) // a Buffer's Write does not fail
	c.exports.Write(body)
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.received = append(c.received, span{
					trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()), name: s.GetName(), state: s.GetTraceState(),
					failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, begin: s.GetStartTimeUnixNano(),
				})
			}
		}
	}
}

// holds reports whether text stands anywhere in what was received.
func (c *collector) holds(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.exports.Bytes(), []byte(text))
}

// spans returns those received so far.
func (c *collector) spans() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.received)
}

// traceOf returns the spans of one trace received so far.
func (c *collector) traceOf(id string) []span {
	return slices.DeleteFunc(slices.Clone(c.spans()), func(s span) bool { return s.trace != id })
}

// await waits for a span, and returns its trace. A span arrives after those below it.
func (c *collector) await(t *testing.T, what string, wanted func(span) bool) (trace []span) {
	t.Helper()
	waittest.Eventually(t, what, func() bool {
		all := c.spans()
		i := slices.IndexFunc(all, wanted)
		if i >= 0 {
			trace = c.traceOf(all[i].trace)
		}
		return i >= 0
	})
	return trace
}

// caller is the span that the requests of the tests come from.
const caller = "00f067aa0ba902b7"

// traced returns the request as part of a new trace, with sampled as its decision.
func traced(q request, sampled bool) (_ request, trace string) {
	trace = fmt.Sprintf("%016x%016x", rand.Uint64()|1<<63, rand.Uint64())
	flags := "00"
	if sampled {
		flags = "01"
	}
	header := map[string]string{
		"Traceparent": "00-" + trace + "-" + caller + "-" + flags,
		"Accept":      "application/json", // else iidy answers in text
	}
	maps.Copy(header, q.header)
	q.header = header
	return q, trace
}

// tree draws spans as an indented tree, children in the order in which they began, with a sign behind those that
// failed. Spans that open connections are left out: a pool opens them at any time.
func tree(spans []span) string {
	var text strings.Builder
	draw(&text, spans, "", 0)
	draw(&text, spans, caller, 0)
	return text.String()
}

func draw(text *strings.Builder, spans []span, parent string, depth int) {
	below := slices.DeleteFunc(slices.Clone(spans), func(s span) bool { return s.parent != parent || s.name == "connect" })
	slices.SortFunc(below, func(a, b span) int { return int(a.begin) - int(b.begin) })
	for _, s := range below {
		sign := ""
		if s.failed {
			sign = " !"
		}
		fmt.Fprintf(text, "%s%s%s\n", strings.Repeat("  ", depth), s.name, sign)
		draw(text, spans, s.id, depth+1)
	}
}
