// Package sink is the cheapest receiver of spans that there can be: it takes OTLP
// over HTTP, counts the spans and forgets them. A bench needs one that costs next to
// nothing beside the service that it measures.
package sink

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
)

// Path is where OTLP's exporters post traces; a GET of CountPath answers how many
// spans there were.
const (
	Path      = "/v1/traces"
	CountPath = "/count"
)

// maxBody bounds an export in bytes; exporters send 512 spans at once by default.
const maxBody = 64 << 20

// Sink is an http.Handler.
type Sink struct{ spans atomic.Int64 }

// ServeHTTP takes spans, or answers their number.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == CountPath {
		_, _ = io.WriteString(w, strconv.FormatInt(s.spans.Load(), 10)) // the client is gone otherwise
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != Path {
		http.NotFound(w, r)
		return
	}
	n, err := count(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.spans.Add(n)
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty ExportTraceServiceResponse is no bytes
}

// Spans returns how many spans there were.
func (s *Sink) Spans() int64 { return s.spans.Load() }

func count(r *http.Request) (int64, error) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return 0, fmt.Errorf("unzip the export: %w", err)
		}
		body = unzipped
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err != nil {
		return 0, fmt.Errorf("read the export: %w", err)
	}
	return spansIn(raw, 0)
}

// The fields on the way to a span: ExportTraceServiceRequest.resource_spans,
// ResourceSpans.scope_spans, ScopeSpans.spans (opentelemetry/proto/trace/v1).
func way() []protowire.Number { return []protowire.Number{1, 2, 2} }

var errNotOTLP = errors.New("that is no export of OTLP")

// spansIn counts the messages at the end of the way, without a look into them.
func spansIn(raw []byte, depth int) (n int64, err error) {
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
		if field == way()[depth] && kind == protowire.BytesType {
			below, _ := protowire.ConsumeBytes(raw)
			if depth == len(way())-1 {
				n++
			} else if more, err := spansIn(below, depth+1); err != nil {
				return 0, err
			} else {
				n += more
			}
		}
		raw = raw[length:]
	}
	return n, nil
}
