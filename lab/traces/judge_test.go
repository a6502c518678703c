package traces

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/collector"
)

// judge holds what services showed against what they may show.
type judge struct {
	spans    *collector.Collector
	services map[string]*service
	requests []judged
}

// judged is a request that was answered.
type judged struct {
	step
	answer

	code string
}

// answered notes an answer and looks at what the client was told.
func (j *judge) answered(t *testing.T, s step, a answer) {
	t.Helper()
	done := judged{step: s, answer: a}
	if a.status != s.status {
		t.Errorf("%s %s %s: %d %s, want %d", s.service, s.request.method, s.request.path, a.status, a.body, s.status)
	}
	if a.status >= http.StatusBadRequest {
		var trace string
		if done.code, trace = problemOf(t, a.body); trace != a.trace {
			t.Errorf("%s %s %s: trace_id %q, want that of the traceparent, %s: %s",
				s.service, s.request.method, s.request.path, trace, a.trace, a.body)
		}
	}
	j.requests = append(j.requests, done)
}

// allowed are the attributes that a span may have. All come from closed lists or
// from the operator, none from a client.
func allowed() []string {
	return []string{
		"http.request.method", "http.route", "http.response.status_code", "url.scheme", "network.protocol.version",
		"error.type", "rowlock.code", "rowlock.client_left",
		"db.system.name", "db.namespace", "db.client.connection.pool.name", "db.query.summary", "db.query.text", "db.response.status_code",
		"rowlock.batch.requests", "rowlock.batch.requests_recorded", "rowlock.batch.skip_locked", "rowlock.batch.outcome", "rowlock.batch.locked",
		"rowlock.poll", "rowlock.poll.found",
		"rpc.system", "rpc.service", "rpc.method", "rpc.connect_rpc.error_code",
	}
}

// messages are those of a failed status. otelconnect puts the answer's sentence there, which of these errors is a constant; whatever else
// comes up has to be looked at, and to be added.
func messages() []string {
	return []string{"The database cannot be reached at the moment. Nothing was changed; try again."}
}

const (
	mostAttributes = 10
	longestValue   = 2100 // a statement's text is cut at 2048
)

// judgeSpans looks at every span that was exported.
func (j *judge) judgeSpans(t *testing.T) {
	t.Helper()
	for _, secret := range []string{mark, luhn, card, "4000000000000002", "4000000000000119"} {
		if j.spans.Holds(secret) {
			t.Errorf("%q was exported", secret)
		}
	}
	all := j.spans.Spans()
	byID := map[string]collector.Span{}
	for _, s := range all {
		byID[s.ID] = s
	}
	for _, s := range all {
		name, _, _ := strings.Cut(s.Resource["service.name"], "-")
		switch {
		case j.services[name] == nil && j.services[name+"-serve"] == nil:
			t.Errorf("%s is of the service %q", s.Name, s.Resource["service.name"])
		case s.Resource["service.version"] == "" || s.Resource["service.instance.id"] == "",
			s.Resource["deployment.environment.name"] != "test":
			t.Errorf("%s has the resource %v", s.Name, s.Resource)
		}
		if parent, ok := byID[s.Parent]; !ok && s.Parent != "" && s.Parent != caller {
			t.Errorf("%s of %s has a parent that was not exported", s.Name, s.Resource["service.name"])
		} else if ok && parent.Trace != s.Trace {
			t.Errorf("%s is in another trace than its parent %s", s.Name, parent.Name)
		}
		if len(s.Attributes) > mostAttributes || len(s.Name) > 120 || s.Message != "" && !slices.Contains(messages(), s.Message) {
			t.Errorf("%s: %d attributes, message %q", s.Name, len(s.Attributes), s.Message)
		}
		// A try for a lease that somebody has is one, and nobody has any here; an exception would be another.
		if len(s.Events) != 0 {
			t.Errorf("%s has the events %q", s.Name, s.Events)
		}
		for _, link := range s.Links {
			for key := range link.Attributes {
				if key != "rowlock.batch.wait_ms" {
					t.Errorf("a link of %s has %s", s.Name, key)
				}
			}
		}
		if s.Attributes["rowlock.poll.found"] == "0" && !s.Failed {
			t.Errorf("a look for work that found nothing was exported: %+v", s)
		}
		for key, value := range s.Attributes {
			if !slices.Contains(allowed(), key) || len(value) > longestValue {
				t.Errorf("%s of %s has %s = %.100q", s.Name, s.Resource["service.name"], key, value)
			}
		}
	}
	for _, r := range j.requests {
		j.judgeRequest(t, r)
	}
}

// judgeRequest looks at the span of a request.
func (j *judge) judgeRequest(t *testing.T, r judged) {
	t.Helper()
	for _, s := range j.spans.Trace(r.trace) {
		if s.Parent != caller {
			continue
		}
		failed := r.answer.status >= http.StatusInternalServerError
		if s.Failed != failed || s.Kind != "server" || s.State != "rowlock-test=1" || s.Attributes["rowlock.code"] != r.code {
			t.Errorf("%s %s %s answered %d %s: its span is %+v", r.service, r.request.method, r.request.path, r.answer.status, r.code, s)
		}
		return
	}
	t.Errorf("%s %s %s: no span", r.service, r.request.method, r.request.path)
}

// levels of a log line.
const (
	levelInfo, levelWarn, levelError = "INFO", "WARN", "ERROR"
)

// judgeLogs looks at every line that was logged.
func (j *judge) judgeLogs(t *testing.T) {
	t.Helper()
	lines := map[string]int{} // of requests, by trace
	for name, s := range j.services {
		for _, line := range s.log.all() {
			if trace := judgeLine(t, name, line); trace != "" {
				lines[trace]++
			}
		}
		for _, must := range []string{`"msg":"starting"`, `"msg":"listening"`, `"msg":"stopping"`} {
			if s.log.count(must) == 0 {
				t.Errorf("%s never logged %s", name, must)
			}
		}
	}
	refused := map[string]*tally{}
	for _, r := range j.requests {
		got := lines[r.trace]
		switch {
		case r.answer.status >= http.StatusBadGateway: // thinned out
			key := r.service + " " + r.code
			if refused[key] == nil {
				refused[key] = new(tally)
			}
			refused[key].answers++
			refused[key].lines += got
		case r.answer.status >= http.StatusBadRequest && got != 1, r.answer.status < http.StatusBadRequest && r.took <= time.Second && got != 0:
			t.Errorf("%s %s %s answered %d after %s: %d lines", r.service, r.request.method, r.request.path, r.answer.status, r.took, got)
		}
		if got > 1 {
			t.Errorf("%s %s %s answered %d: %d lines", r.service, r.request.method, r.request.path, r.answer.status, got)
		}
	}
	// The first ten of a code always have a line each, and a line may tell of others.
	for key, n := range refused {
		if n.lines < min(n.answers, alwaysLogged) {
			t.Errorf("%s: %d answers, %d lines", key, n.answers, n.lines)
		}
	}
	if len(refused) < len(j.services) {
		t.Errorf("refusals of %d kinds alone", len(refused))
	}
}

// alwaysLogged is how many refusals of a code have lines whatever comes.
const alwaysLogged = 10

// tally counts what one service refused with one code.
type tally struct{ answers, lines int }

// judgeLine judges one line, and returns its trace when it is that of a request.
func judgeLine(t *testing.T, name, line string) (trace string) {
	t.Helper()
	bad := func(why string) { t.Errorf("%s: %s: %s", name, why, line) }
	var all map[string]any
	if err := json.Unmarshal([]byte(line), &all); err != nil {
		bad("no line of JSON")
		return ""
	}
	for _, secret := range []string{mark, luhn, card, "4000000000000002", "4000000000000119", "DETAIL", "Key (", "a secret of the tests"} {
		if strings.Contains(line, secret) {
			bad("it tells " + secret)
		}
	}
	text := func(key string) string { s, _ := all[key].(string); return s }
	at, err := time.Parse(time.RFC3339Nano, text("time"))
	if err != nil || at.Location() != time.UTC {
		bad("its time is not UTC")
	}
	service, _, _ := strings.Cut(name, "-")
	if text("service") != service || text("version") == "" || text("msg") == "" {
		bad("no service, version or msg")
	}
	level := text("level")
	if text("msg") != "request" {
		// Nothing that happens here is a bug of the service.
		if level != levelInfo && level != levelWarn {
			bad("its level")
		}
		return ""
	}
	want := levelInfo
	switch status, _ := all["status"].(float64); {
	case status == http.StatusInternalServerError:
		want = levelError
	case status > http.StatusInternalServerError:
		want = levelWarn
	}
	if level != want {
		bad("its level")
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains([]string{
			"time", "level", "msg", "service", "version", "trace_id", "span_id", "server", "method", "route", "status", "ms", "bytes",
			"request_id", "code", "error", "omitted", "client_left",
		}, key) {
			bad("it has " + key)
		}
	}
	if len(text("trace_id")) != 32 || len(text("span_id")) != 16 {
		bad("no trace")
	}
	return text("trace_id")
}
