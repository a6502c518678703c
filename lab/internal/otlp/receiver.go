// Package otlp receives spans over OTLP/HTTP. It counts them, and keeps them for tests.
package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// TracesPath is where exporters post spans.
const TracesPath = "/v1/traces"

// maxBody bounds an export in bytes; exporters send 512 spans at once by default.
const maxBody = 64 << 20

// Receiver is an http.Handler that receives spans.
type Receiver struct {
	// Keep makes it keep what it receives. Without, it counts spans and does not decode them, so that it costs next to
	// nothing beside a service that is measured.
	Keep bool

	spans atomic.Int64

	mu      sync.Mutex
	exports [][]byte
	headers bytes.Buffer
}

// ServeHTTP receives an export.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodPost && req.URL.Path == TracesPath:
		if err := r.receive(req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf") // an empty ExportTraceServiceResponse has no bytes
	default:
		http.NotFound(w, req)
	}
}

func (r *Receiver) receive(req *http.Request) error {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return fmt.Errorf("unzip the export: %w", err)
		}
		body = unzipped
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err != nil {
		return fmt.Errorf("read the export: %w", err)
	}
	n, err := countSpans(raw, 0)
	if err != nil {
		return err
	}
	defer r.spans.Add(n) // what is counted is kept
	if r.Keep {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exports = append(r.exports, raw)
		return req.Header.Write(&r.headers) //nolint:wrapcheck // a Buffer's Write does not fail
	}
	return nil
}

// Count returns the number of spans received so far.
func (r *Receiver) Count() int64 { return r.spans.Load() }

// Spans returns what was kept so far.
func (r *Receiver) Spans() []*tracepb.ResourceSpans {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*tracepb.ResourceSpans, 0, len(r.exports))
	for _, raw := range r.exports {
		var export coltracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &export); err != nil {
			panic(err) // countSpans has read it
		}
		all = append(all, export.GetResourceSpans()...)
	}
	return all
}

// Holds reports whether text stands anywhere in the exports that were kept, or in their headers.
func (r *Receiver) Holds(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, raw := range append(r.exports, r.headers.Bytes()) {
		if bytes.Contains(raw, []byte(text)) {
			return true
		}
	}
	return false
}

var errNotOTLP = errors.New("the body is no export of OTLP")

// path returns the fields that lead to a span: ExportTraceServiceRequest.resource_spans, ResourceSpans.scope_spans,
// ScopeSpans.spans (opentelemetry/proto/trace/v1).
func path() []protowire.Number { return []protowire.Number{1, 2, 2} }

// countSpans returns the number of messages at the end of the path, which it does not decode.
func countSpans(raw []byte, depth int) (n int64, err error) {
	for len(raw) > 0 {
		field, kind, length := protowire.ConsumeTag(raw)
		if length < 0 {
			return 0, errNotOTLP
		}
		raw = raw[length:]
		length = protowire.ConsumeFieldValue(field, kind, raw)
		if length < 0 {
			return 0, errNotOTLP
		}
		if field == path()[depth] && kind == protowire.BytesType {
			below, _ := protowire.ConsumeBytes(raw)
			if depth == len(path())-1 {
				n++
			} else if more, err := countSpans(below, depth+1); err != nil {
				return 0, err
			} else {
				n += more
			}
		}
		raw = raw[length:]
	}
	return n, nil
}
