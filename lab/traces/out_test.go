package traces

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// chains are, for each service, a statement of its check and all that stands above it,
// up to the span from which `rowlock check` was started.
func chains() map[string][]string {
	return map[string][]string{
		"counts": {
			"UPDATE counts.count_values", "batch counts_add", "counts.increase", "POST /api/v1/counts/{itemId}/increase", "POST", "check counts",
		},
		"events": {"UPDATE events.status INSERT events.events", "batch events_add", "events.create", "POST /events", "POST", "check events"},
		"iidy":   {"INSERT iidy.lists", "iidy.add_batch", "POST /iidy/v1/batch/lists/{list}", "POST", "check iidy"},
		"payments": {
			"INSERT payments.processor_charges", "processor.charge", "payments.pay", "POST /v1/payments", "POST", "check payments",
		},
		"pyggpot": {
			"INSERT pyggpot.coin UPDATE pyggpot.pot", "pyggpot.add", "pyggpot.coin.Coin/AddCoins", "POST /pyggpot.coin.Coin/AddCoins", "POST",
			"check pyggpot",
		},
	}
}

// TestContextGoesOut: a program of ours that calls the services takes the trace that it
// was started from on to them, with its tracestate, to the last statement; and one that
// is not to be recorded is recorded nowhere.
func TestContextGoesOut(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	spans := collector.Start(t)
	services := map[string]*service{}
	args := []string{"check"}
	for name := range chains() {
		process := name
		if name == "events" {
			process = "events-serve"
			services["events-work"] = run(t, "events-work", dsn, spans.Environ())
		}
		services[name] = run(t, process, dsn, spans.Environ())
		args = append(args, "--"+name+"="+services[name].api)
	}
	program := filepath.Join(t.TempDir(), "rowlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/rowlock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build rowlock: %v\n%s", err, out)
	}

	recorded, unrecorded := newTrace(), newTrace()
	for trace, flags := range map[string]string{recorded: "01", unrecorded: "00"} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		environ := spans.Environ()
		maps.Copy(environ, map[string]string{
			"PATH": config.Environ()["PATH"], "TRACEPARENT": "00-" + trace + "-" + caller + "-" + flags, "TRACESTATE": "rowlock-test=1,vendor=a:b",
		})
		for key, value := range environ {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rowlock check: %v\n%s", err, out)
		}
		if n := strings.Count(string(out), "(trace "+recorded+")"); trace == recorded && n != len(chains()) || trace == unrecorded && n != 0 {
			t.Errorf("flags %s: %d lines name the trace:\n%s", flags, n, out)
		}
	}
	for _, s := range services {
		s.stop(t) // with the last spans
	}
	if n := len(spans.Trace(unrecorded)); n != 0 {
		t.Errorf("%d spans of a trace that is not sampled", n)
	}
	if spans.Holds("check-") {
		t.Error("an id that the checks made up was exported")
	}
	judgeCalls(t, spans.Trace(recorded))
}

// judgeCalls looks at one trace of callers and called ones.
func judgeCalls(t *testing.T, trace []collector.Span) {
	t.Helper()
	byID := map[string]collector.Span{}
	called := map[string]int{} // by client span
	for _, s := range trace {
		byID[s.ID] = s
	}
	found := map[string]bool{}
	for _, s := range trace {
		if s.State != "rowlock-test=1,vendor=a:b" {
			t.Errorf("%s has the tracestate %q", s.Name, s.State)
		}
		for key := range s.Attributes {
			if !slices.Contains(append(allowed(), "server.address", "server.port"), key) {
				t.Errorf("%s has %s", s.Name, key)
			}
		}
		above := byID[s.Parent]
		switch {
		case s.Kind == "client" && s.Resource["service.name"] == "rowlock":
			if !strings.HasPrefix(above.Name, "check ") || s.Attributes["server.address"] != "127.0.0.1" || s.Attributes["server.port"] == "" {
				t.Errorf("a call below %q: %+v", above.Name, s)
			}
		case s.Kind == "server" && s.Attributes["rpc.system"] == "":
			called[above.ID]++
			for _, key := range []string{"http.request.method", "http.response.status_code"} {
				if s.Attributes[key] != above.Attributes[key] {
					t.Errorf("%s has %s %s, its caller %+v", s.Name, key, s.Attributes[key], above)
				}
			}
			if above.Kind != "client" || above.Resource["service.name"] != "rowlock" {
				t.Errorf("%s is below %+v, want the caller's span", s.Name, above)
			}
		}
		found[chain(byID, s)] = true
	}
	calls := 0
	for _, s := range trace {
		if s.Kind == "client" && s.Resource["service.name"] == "rowlock" {
			if calls++; called[s.ID] != 1 {
				t.Errorf("a call was received %d times: %+v", called[s.ID], s)
			}
		}
	}
	const atLeast = 100 + 30 // increases and repeated payments
	if calls < atLeast {
		t.Errorf("%d calls, want at least %d", calls, atLeast)
	}
	for service, names := range chains() {
		if want := strings.Join(append(slices.Clone(names), caller), " < "); !found[want] {
			t.Errorf("%s: no statement is\n%s", service, want)
		}
	}
}

// chain names the span and all above it; the last one is remote.
func chain(byID map[string]collector.Span, s collector.Span) string {
	names := s.Name
	for {
		above, ok := byID[s.Parent]
		if !ok {
			return names + " < " + s.Parent
		}
		names += " < " + above.Name
		s = above
	}
}
