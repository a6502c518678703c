package traces

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// TestBatchesLeadToTheirRequests: a group is linked to each request in it, each
// request leads to the group that carried it, and a request that is not sampled
// leaves nothing, be it alone or beside others.
func TestBatchesLeadToTheirRequests(t *testing.T) {
	t.Parallel()
	spans := collector.Start(t)
	for name, request := range map[string]func(i int) request{
		"counts": func(int) request { return request{method: http.MethodPost, path: "/api/v1/counts/hot/increase"} },
		"iidy": func(i int) request {
			return request{method: http.MethodPost, path: fmt.Sprintf("/iidy/v1/lists/list/item-%d", i)}
		},
		"events-serve": func(int) request { return request{method: http.MethodPost, path: "/events"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := run(t, name, dbtest.Empty(t), spans.Environ()), client(t)
			if name == "counts" {
				s.send(t, c, requestOf(http.MethodPost, "/api/v1/internal/counts", `{"itemId":"hot"}`))
			}
			for round := 0; ; round++ {
				if checkBatches(t, spans, s, c, round, request) {
					return
				}
				if round == 20 {
					t.Fatal("no group of several requests in 20 rounds")
				}
			}
		})
	}
}

func requestOf(method, path, body string) request {
	return request{method: method, path: path, body: body}
}

// together is how many requests are sent at once, every fourth of them unsampled.
const together = 48

// checkBatches sends a crowd and checks its traces; it tells whether a group of
// several requests was among them.
func checkBatches(t *testing.T, spans *collector.Collector, s *service, c *http.Client, round int, of func(int) request) (several bool) {
	t.Helper()
	var mu sync.Mutex
	sampled, unsampled := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for i := range together {
		all.Go(func() {
			r, trace := of(round*together+i), newTrace()
			flag, set := "01", sampled
			if i%4 == 0 {
				flag, set = "00", unsampled
			}
			r.header = map[string]string{"Traceparent": "00-" + trace + "-" + caller + "-" + flag}
			if a := s.send(t, c, r); a.status >= http.StatusMultipleChoices {
				t.Errorf("%d %s", a.status, a.body)
			}
			mu.Lock()
			defer mu.Unlock()
			set[trace] = true
		})
	}
	all.Wait()

	requests := map[string]string{} // by span: its trace
	batches := map[string]collector.Span{}
	for trace := range sampled {
		for _, span := range traceOf(t, spans, trace) {
			switch {
			case strings.HasPrefix(span.Name, "batch "):
				batches[span.ID] = span
			case span.Parent != caller && len(span.Attributes) == 0:
				requests[span.ID] = trace // the service's span: it has asked for the group
			}
		}
	}
	linked := map[string]string{} // by request: its group
	for id, b := range batches {
		if len(b.Links) > 1 && !several {
			several = true
			t.Logf("a group of %s requests\n%s%v\n%+v", b.Attributes["rowlock.batch.requests"],
				collector.Tree(spans.Trace(b.Trace), caller), b.Attributes, b.Links)
		}
		if n := strconv.Itoa(len(b.Links)); b.Attributes["rowlock.batch.requests_recorded"] != n || len(b.Links) == 0 {
			t.Errorf("a group with %s links has %v", n, b.Attributes)
		}
		for _, l := range b.Links {
			if requests[l.ID] != l.Trace || linked[l.ID] != "" {
				t.Errorf("a group is linked to %+v, which is none of the requests, or is another group's", l)
			}
			linked[l.ID] = id
		}
		if _, mine := linked[b.Parent]; !mine {
			t.Errorf("the parent of a group is not among its links: %+v", b)
		}
	}
	if len(linked) != len(sampled) {
		t.Errorf("%d of %d requests are linked from a group", len(linked), len(sampled))
	}
	for trace := range sampled {
		for _, span := range spans.Trace(trace) {
			group, asked := linked[span.ID]
			if !asked || batches[group].Parent == span.ID {
				continue
			}
			if len(span.Links) != 1 || span.Links[0].ID != group || span.Links[0].Attributes["rowlock.batch.wait_ms"] == "" {
				t.Errorf("the request %s leads to %+v, want its group %s", span.ID, span.Links, group)
			}
		}
	}
	for trace := range unsampled {
		if n := len(spans.Trace(trace)); n != 0 {
			t.Errorf("%d spans of a trace that is not sampled", n)
		}
	}
	return several
}
