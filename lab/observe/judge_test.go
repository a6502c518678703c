package observe

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
)

// judge collects what services answered, exported and logged, and compares it with what they may show.
type judge struct {
	spans     *collector
	processes map[string]*process // by service, and events-work
	requests  []judged
}

// judged is a request that was answered.
type judged struct {
	request
	apptest.Answer

	service, trace, code string
}

// String names the request in messages.
func (r judged) String() string { return r.service + ": " + r.method + " " + r.path }

// send sends a request. An error must name the trace.
func (j *judge) send(t *testing.T, service string, q request) judged {
	t.Helper()
	q, trace := traced(q, true)
	addr := j.processes[service].set.Replicas()[0].Status().API
	done := judged{request: q, Answer: q.send(t, addr), service: service, trace: trace}
	if done.Status >= http.StatusBadRequest {
		var named string
		if done.code, named = problemOf(t, done.Body); named != trace {
			t.Errorf("%s: trace_id %q, want that of the traceparent, %s: %s", done, named, trace, done.Body)
		}
	}
	j.requests = append(j.requests, done)
	return done
}

// problemOf reads code and trace of an error's body, be it problem+json or Connect's.
func problemOf(t *testing.T, body string) (code, trace string) {
	t.Helper()
	var doc struct {
		Code    string `json:"code"`
		TraceID string `json:"trace_id"` //nolint:tagliatelle // the contract's name
		Details []struct {
			Debug struct {
				Reason   string            `json:"reason"`
				Metadata map[string]string `json:"metadata"`
			} `json:"debug"`
		} `json:"details"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Errorf("%q is no problem: %v", body, err)
	}
	for _, d := range doc.Details {
		if d.Debug.Reason != "" {
			return d.Debug.Reason, d.Debug.Metadata["trace_id"]
		}
	}
	return doc.Code, doc.TraceID
}

// allowed returns the attributes that a span may have. Their values come from closed lists or from the operator, none
// from a client.
func allowed() []string {
	return []string{
		"http.request.method", "http.route", "http.response.status_code", "url.scheme", "network.protocol.version",
		"error.type", "rowlock.code", "rowlock.client_left", "db.system.name", "db.namespace",
		"db.client.connection.pool.name", "db.query.summary", "db.query.text", "db.response.status_code",
		"rowlock.batch.requests", "rowlock.batch.requests_recorded", "rowlock.batch.skip_locked", "rowlock.batch.outcome",
		"rowlock.batch.locked", "rowlock.poll", "rowlock.poll.found", "rpc.system.name", "rpc.method",
		"rpc.response.status_code",
	}
}

// allowedMessage is the one of a failed status: otelconnect puts the answer's sentence there, which of this error is
// constant.
const allowedMessage = "The database cannot be reached at the moment. Nothing was changed; try again."

// secrets returns texts that stand in no span and in no log line.
func secrets() []string {
	texts := []string{mark, luhn}
	for _, s := range subjects() {
		texts = append(texts, s.secrets...)
	}
	return texts
}

const (
	mostAttributes = 10
	longestValue   = 2100 // a statement's text is cut at 2048
)

// judgeSpans looks at every span that was exported, but for those of rowlock check.
func (j *judge) judgeSpans(t *testing.T) {
	t.Helper()
	for _, secret := range secrets() {
		if j.spans.Holds(secret) {
			t.Errorf("%q was exported", secret)
		}
	}
	all := j.spans.spans()
	byID := map[string]span{}
	for _, s := range all {
		byID[s.id] = s
	}
	for _, s := range all {
		if s.resource["service.name"] == "rowlock" {
			continue
		}
		if j.processes[s.resource["service.name"]] == nil || s.resource["service.version"] == "" ||
			s.resource["service.instance.id"] == "" ||
			s.resource["deployment.environment.name"] != "test" {
			t.Errorf("%s has the resource %v", s.name, s.resource)
		}
		if parent, ok := byID[s.parent]; !ok && s.parent != "" && s.parent != caller || ok && parent.trace != s.trace {
			t.Errorf("%s of %s has a parent of another trace, or one that was not exported", s.name, s.resource["service.name"])
		}
		// A lease that is held by another replica is an event, and there is none here; an exception would be another.
		if len(s.attributes) > mostAttributes || len(s.name) > 120 || s.events != 0 ||
			s.message != "" && s.message != allowedMessage {
			t.Errorf("%s: %d attributes, message %q, %d events", s.name, len(s.attributes), s.message, s.events)
		}
		for _, l := range s.links {
			for key := range l.attributes {
				if key != "rowlock.batch.wait_ms" {
					t.Errorf("a link of %s has %s", s.name, key)
				}
			}
		}
		if s.attributes["rowlock.poll.found"] == "0" && !s.failed {
			t.Errorf("a poll that found nothing was exported: %+v", s)
		}
		for key, value := range s.attributes {
			if !slices.Contains(allowed(), key) || len(value) > longestValue {
				t.Errorf("%s of %s has %s = %.100q", s.name, s.resource["service.name"], key, value)
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
	trace := j.spans.traceOf(r.trace)
	i := slices.IndexFunc(trace, func(s span) bool { return s.parent == caller })
	if i < 0 {
		t.Errorf("%s: no span", r)
		return
	}
	s, failed := trace[i], r.Status >= http.StatusInternalServerError
	if s.failed != failed || s.kind != "server" || s.state != "rowlock-test=1" || s.attributes["rowlock.code"] != r.code {
		t.Errorf("%s answered %d %s: its span is %+v", r, r.Status, r.code, s)
	}
}

// The levels of a log line.
const (
	levelInfo, levelWarn, levelError = "INFO", "WARN", "ERROR"
)

// judgeLogs looks at every line that was logged.
func (j *judge) judgeLogs(t *testing.T) {
	t.Helper()
	lines := map[string]int{} // of requests, by trace
	for name, p := range j.processes {
		for _, line := range p.lines() {
			lines[judgeLine(t, p.service, line)]++
		}
		for _, must := range []string{`"msg":"starting"`, `"msg":"listening"`, `"msg":"stopping"`} {
			if p.logged(must) == 0 {
				t.Errorf("%s did not log %s", name, must)
			}
		}
	}
	refused := map[string]bool{}
	for _, r := range j.requests {
		got, status := lines[r.trace], r.Status
		refused[r.service] = refused[r.service] || status >= http.StatusBadGateway
		least, most := 0, 1 // refusals are sampled
		switch {
		case status >= http.StatusBadRequest && status < http.StatusBadGateway:
			least = 1
		case status < http.StatusBadRequest && r.Took <= time.Second:
			most = 0
		}
		if got < least || got > most {
			t.Errorf("%s answered %d after %s: %d lines", r, status, r.Took, got)
		}
	}
	if len(refused) < len(j.processes)-1 {
		t.Errorf("refusals of %v alone", refused)
	}
}

// judgeLine looks at one line, and returns its trace when it is that of a request.
func judgeLine(t *testing.T, service, line string) (trace string) {
	t.Helper()
	bad := func(why string) { t.Errorf("%s: %s: %s", service, why, line) }
	var all map[string]any
	if err := json.Unmarshal([]byte(line), &all); err != nil {
		bad("no line of JSON")
		return ""
	}
	for _, secret := range append(secrets(), "DETAIL", "Key (") {
		if strings.Contains(line, secret) {
			bad("it shows " + secret)
		}
	}
	text := func(key string) string { s, _ := all[key].(string); return s }
	at, err := time.Parse(time.RFC3339Nano, text("time"))
	if err != nil || at.Location() != time.UTC {
		bad("its time is not UTC")
	}
	if text("service") != service || text("version") == "" || text("msg") == "" {
		bad("no service, version or msg")
	}
	level := text("level")
	if text("msg") != "request" {
		// Nothing of this is a bug of the service.
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
			"time",
			"level",
			"msg",
			"service",
			"version",
			"trace_id",
			"span_id",
			"server",
			"method",
			"route",
			"status",
			"ms",
			"bytes",
			"request_id",
			"code",
			"error",
			"omitted",
			"client_left",
		}, key) {
			bad("it has " + key)
		}
	}
	if len(text("trace_id")) != 32 || len(text("span_id")) != 16 {
		bad("no trace")
	}
	return text("trace_id")
}
