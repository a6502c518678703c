package observe

import (
	"context"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

const (
	// mark is in everything the tests send that a service must not show.
	mark = "Zq7MARKq7Z"
	// luhn has the digits of a card number, of no card.
	luhn = "4000056655665556"
	// marked is a name that has both.
	marked = mark + luhn
	// unknown is the id of nothing.
	unknown = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)

// step is a request and the expected answer.
type step struct {
	request request
	status  int
	// tree is its trace as a tree. Without an end of line it names an operation in it; empty stands for any.
	tree string
}

// witness collects what services exported and logged.
type witness struct {
	spans *collector
	apis  map[string]string // addresses, by service

	mu  sync.Mutex
	log []string
}

func (w *witness) keep(_ string, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, string(line))
}

// TestTraces sends the story to all services, then a trace through a client of ours, and kills the database. What the
// stories send that is secret comes back in no span and in no log line, of failures included.
func TestTraces(t *testing.T) {
	t.Parallel()
	server := dbtest.Server(t)
	w := &witness{spans: newCollector(t), apis: map[string]string{}}
	all := fleets()
	for _, f := range all {
		f.line, f.environ = w.keep, w.spans.environ()
	}
	startAll(t, all, 1, server)
	for _, f := range all {
		if f.component == "serve" {
			w.apis[f.service] = f.set.Replicas()[0].Status().API
		}
	}

	for _, s := range subjects(t) {
		w.tell(t, s)
	}
	w.checkCalls(t)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects(t) {
		for _, q := range s.down { // a pool may notice late
			waittest.Eventually(t, s.service+" without a database: "+q.path, func() bool {
				q, _ := traced(q, true)
				return q.send(t, w.apis[s.service]).Status == http.StatusServiceUnavailable
			})
		}
	}
	for _, f := range all { // which exports the last spans
		if err := f.set.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop %s: %v", f.service, err)
		}
	}
	w.keepsSecrets(t)
}

// tell sends the story of a service, and compares the traces with the expected ones.
func (w *witness) tell(t *testing.T, of subject) {
	t.Helper()
	for _, s := range of.story {
		q, trace := traced(s.request, true)
		where := of.service + ": " + q.method + " " + q.path
		if a := q.send(t, w.apis[of.service]); a.Status != s.status {
			t.Errorf("%s: answered %d, want %d", where, a.Status, s.status)
		}
		got := tree(w.spans.await(t, where, func(one span) bool { return one.trace == trace && one.parent == caller }))
		if has := strings.Contains(got, "  "+s.tree+"\n"); got != s.tree && s.tree != "" && !has {
			t.Errorf("%s: the trace is\n%swant\n%s", where, got, s.tree)
		}
	}
	if of.work == "" {
		return
	}

	root, _, _ := strings.Cut(of.work, "\n")
	batch := w.spans.await(t, "a worked batch", func(s span) bool { return s.name == root })
	if got := tree(batch); got != of.work {
		t.Errorf("the worker's trace is\n%swant\n%s", got, of.work)
	}
}

// checkCalls runs rowlock check below a trace: the services continue it, with its state, down to the last statement. A
// trace that is not sampled is exported by no process.
func (w *witness) checkCalls(t *testing.T) {
	t.Helper()
	unsampled := w.runCheck(t, false)
	if n := len(w.spans.traceOf(unsampled)); n != 0 {
		t.Errorf("%d spans of a trace that is not sampled were exported", n)
	}

	sampled := w.runCheck(t, true)
	for _, s := range subjects(t) {
		w.spans.await(t, s.service+": "+s.last, func(one span) bool { return one.trace == sampled && one.name == s.last })
	}
	for _, s := range w.spans.traceOf(sampled) {
		if s.state != state {
			t.Errorf("%s has the tracestate %q", s.name, s.state)
		}
	}
}

// state is the tracestate of the trace of rowlock check.
const state = "rowlock-test=1,vendor=a:b"

// runCheck runs rowlock check on all services and returns its trace.
func (w *witness) runCheck(t *testing.T, sampled bool) (trace string) {
	t.Helper()
	args := []string{"check"}
	for service, api := range w.apis {
		args = append(args, "--"+service+"=http://"+api)
	}
	q, trace := traced(request{}, sampled)
	environ := w.spans.environ()
	maps.Copy(environ, map[string]string{
		"PATH": config.Environ()["PATH"], "TRACEPARENT": q.header["Traceparent"], "TRACESTATE": state,
	})
	cmd := exec.CommandContext(t.Context(), rowlockBinary(t), args...)
	cmd.Env = local.Variables(environ)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rowlock check: %v\n%s", err, out)
	}
	return trace
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

// keepsSecrets demands that no mark came back.
func (w *witness) keepsSecrets(t *testing.T) {
	t.Helper()
	secrets := []string{mark, luhn}
	for _, s := range subjects(t) {
		secrets = append(secrets, s.secrets...)
	}
	for _, secret := range secrets {
		if w.spans.holds(secret) {
			t.Errorf("%q was exported", secret)
		}
	}
	// PostgreSQL puts values behind the last two.
	for _, line := range w.log {
		for _, secret := range slices.Concat(secrets, []string{"DETAIL", "Key ("}) {
			if strings.Contains(line, secret) {
				t.Errorf("%q was logged: %s", secret, line)
			}
		}
	}
}
