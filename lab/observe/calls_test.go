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

// checkCalls runs rowlock check below a trace: the services continue it with its tracestate, down to the last
// statement. A trace that is not sampled is exported by no process.
func checkCalls(t *testing.T, j *judge) {
	t.Helper()
	args := []string{"check"}
	for _, s := range subjects() {
		args = append(args, "--"+s.service+"=http://"+j.processes[s.service].set.Replicas()[0].Status().API)
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
		if n := strings.Count(string(out), "(trace "+trace+")"); sampled && n != len(registered) || !sampled && n != 0 {
			t.Errorf("sampled %t: %d lines name the trace:\n%s", sampled, n, out)
		}
		return trace
	}
	if unsampled := trace(false); len(j.spans.traceOf(unsampled)) != 0 {
		t.Error("spans of a trace that is not sampled were exported")
	}
	sampled := trace(true)
	for _, s := range subjects() {
		want := strings.Join(append(s.chain, caller), " < ")
		j.spans.await(t, s.service+": "+want, func(one span) bool {
			return one.trace == sampled && one.name == s.chain[0] && chain(j.spans.traceOf(sampled), one) == want
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
