package observe

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/config"
)

// chains returns for each service a statement of its check and all spans above it, up to that from which rowlock check
// was started.
func chains() map[string][]string {
	return map[string][]string{
		"counts": {
			"UPDATE counts.count_values", "batch counts_add", "counts.increase", "POST /api/v1/counts/{itemId}/increase", "POST",
			"check counts",
		},
		"events": {
			"UPDATE events.status INSERT events.events", "batch events_add", "events.create", "POST /events", "POST",
			"check events",
		},
		"iidy": {"INSERT iidy.lists", "iidy.add_batch", "POST /iidy/v1/batch/lists/{list}", "POST", "check iidy"},
		"payments": {
			"INSERT payments.processor_charges", "processor.charge", "payments.pay", "POST /v1/payments", "POST",
			"check payments",
		},
		"pyggpot": {
			"INSERT pyggpot.coin UPDATE pyggpot.pot", "pyggpot.add", "pyggpot.coin.Coin/AddCoins",
			"POST /pyggpot.coin.Coin/AddCoins", "POST", "check pyggpot",
		},
	}
}

// checkCalls runs rowlock check below a trace: the services continue it with its tracestate, down to the last
// statement. A trace that is not sampled is exported by no process.
func checkCalls(t *testing.T, j *judge) {
	t.Helper()
	args := []string{"check"}
	for name := range chains() {
		args = append(args, "--"+name+"=http://"+j.processes[name].set.Replicas()[0].Status().API)
	}
	program := rowlockBinary(t)
	const state = "rowlock-test=1,vendor=a:b"
	trace := func(sampled bool) string {
		q, trace := traced(request{}, sampled)
		cmd := exec.CommandContext(t.Context(), program, args...)
		environ := j.spans.environ()
		maps.Copy(environ, map[string]string{
			"PATH": config.Environ()["PATH"], "TRACEPARENT": q.header["Traceparent"], "TRACESTATE": state,
		})
		for key, value := range environ {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rowlock check: %v\n%s", err, out)
		}
		if n := strings.Count(string(out), "(trace "+trace+")"); sampled && n != len(chains()) || !sampled && n != 0 {
			t.Errorf("sampled %t: %d lines name the trace:\n%s", sampled, n, out)
		}
		return trace
	}
	if unsampled := trace(false); len(j.spans.traceOf(unsampled)) != 0 {
		t.Error("spans of a trace that is not sampled were exported")
	}
	sampled := trace(true)
	// The statement of a group is below its first request, which is any of the two that add events.
	eitherAdd := strings.NewReplacer("events.enqueue", "events.create", "POST /events/async", "POST /events")
	for service, names := range chains() {
		want := strings.Join(append(names, caller), " < ")
		j.spans.await(t, service+": "+want, func(s span) bool {
			return s.trace == sampled && s.name == names[0] && eitherAdd.Replace(chain(j.spans.traceOf(sampled), s)) == want
		})
	}
	for _, s := range j.spans.traceOf(sampled) {
		if s.state != state {
			t.Errorf("%s has the tracestate %q", s.name, s.state)
		}
	}
}

// rowlockBinary returns the path of rowlock, built with the flags of make build unless make has just built it.
func rowlockBinary(t *testing.T) string {
	t.Helper()
	if folder := config.Environ()[local.BinariesVariable]; folder != "" {
		return filepath.Join(folder, "rowlock")
	}
	program := filepath.Join(t.TempDir(), "rowlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "../cmd/rowlock")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build rowlock: %v\n%s", err, out)
	}
	return program
}

// chain names the span and all above it; the last one is remote.
func chain(trace []span, s span) string {
	names := s.name
	for {
		i := slices.IndexFunc(trace, func(above span) bool { return above.id == s.parent })
		if i < 0 {
			return names + " < " + s.parent
		}
		s = trace[i]
		names += " < " + s.name
	}
}
