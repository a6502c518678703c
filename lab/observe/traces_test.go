package observe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
)

const (
	// mark is in everything the tests send that a service must not show.
	mark = "Zq7MARKq7Z"
	// luhn has the digits of a card number, of no card.
	luhn = "4000056655665556"
)

const (
	// marked is a name that has both.
	marked = mark + luhn
	// unknown is the id of nothing.
	unknown = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)

// step is a request and the expected answer.
type step struct {
	request request
	status  int
	// tree is that of its trace. Without an end of line it names an operation in it; empty stands for any.
	tree string
}

// TestTraces sends the story to all services, kills the database and restarts it, stops the services, and judges every
// span and every log line. Then a client of ours, rowlock check, takes a trace through them.
func TestTraces(t *testing.T) {
	t.Parallel()
	server := dbtest.Server(t)
	j := &judge{spans: newCollector(t), processes: map[string]*process{}}
	var all []*fleet
	for _, f := range fleets() {
		p := &process{fleet: f}
		f.line, f.environ = p.keep, j.spans.environ()
		f.environ["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment.name=test"
		all, j.processes[strings.TrimSuffix(f.service+"-"+f.component, "-serve")] = append(all, f), p
	}
	startAll(t, all, 1, server)
	for _, s := range subjects() {
		j.tell(t, s)
	}
	checkCalls(t, j)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects() {
		for _, q := range s.down { // a pool may notice late
			j.until(t, "without a database", s.service, q,
				func(status int) bool { return status == http.StatusServiceUnavailable })
		}
		if s.worry != "" {
			waittest.Eventually(t, "the worker logs that it cannot work",
				func() bool { return j.processes[s.service+"-work"].logged(s.worry) > 0 })
		}
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects() {
		j.until(t, "with the database again", s.service, s.down[0],
			func(status int) bool { return status < http.StatusInternalServerError })
	}
	for _, p := range j.processes {
		p.stop(t)
	}
	j.judgeSpans(t)
	j.judgeLogs(t)
}

// tell sends the story of a service, and compares the traces with the expected ones.
func (j *judge) tell(t *testing.T, of subject) {
	t.Helper()
	for _, s := range of.story {
		done := j.send(t, of.service, s.request)
		if done.Status != s.status {
			t.Errorf("%s: answered %d, want %d", done, done.Status, s.status)
		}
		got := tree(j.spans.await(t, done.String(),
			func(one span) bool { return one.trace == done.trace && one.parent == caller }))
		if has := strings.Contains(got, "  "+s.tree+"\n"); got != s.tree && s.tree != "" && !has {
			t.Errorf("%s: the trace is\n%swant\n%s", done, got, s.tree)
		}
	}
	if of.work == "" {
		return
	}
	root, _, _ := strings.Cut(of.work, "\n")
	batch := j.spans.await(t, "a worked batch", func(s span) bool { return s.name == root })
	if got := tree(batch); got != of.work {
		t.Errorf("the worker's trace is\n%swant\n%s", got, of.work)
	}
}

// until repeats a request until its status is as wanted.
func (j *judge) until(t *testing.T, when, service string, q request, wanted func(status int) bool) {
	t.Helper()
	waittest.Eventually(t, when+": "+service+": "+q.path,
		func() bool { return wanted(j.send(t, service, q).Status) })
}
