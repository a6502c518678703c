package otlp_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/lab/internal/otlp"
)

func TestReceiverCountsAndKeepsSpans(t *testing.T) {
	t.Parallel()
	receiver := &otlp.Receiver{Keep: true}
	server := httptest.NewServer(receiver)
	defer server.Close()
	two := &tracepb.ScopeSpans{Spans: []*tracepb.Span{{Name: "a"}, {Name: "b"}}}
	raw, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{
		{ScopeSpans: []*tracepb.ScopeSpans{two, two}}, {ScopeSpans: []*tracepb.ScopeSpans{two}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path string, body []byte) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "gopher-1")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for range 3 {
		if status := post(otlp.TracesPath, raw); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if a, b := post(otlp.TracesPath, []byte("nonsense")), post("/v1/metrics", raw); a != http.StatusBadRequest ||
		b != http.StatusNotFound {
		t.Errorf("nonsense is %d, another path %d", a, b)
	}
	if kept := receiver.Spans(); len(kept) != 6 || kept[0].GetScopeSpans()[0].GetSpans()[1].GetName() != "b" ||
		!receiver.Holds("gopher-") || receiver.Holds("mouse") {
		t.Errorf("kept %+v", kept)
	}
	if n := receiver.Count(); n != 18 {
		t.Errorf("counted %d, want 18", n)
	}
}
