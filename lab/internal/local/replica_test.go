package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/waittest"
)

// recorder keeps the events and lines of a set.
type recorder struct {
	mu     sync.Mutex
	events []Event
	lines  bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Write(p)
}

func (r *recorder) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

func (r *recorder) of(replica string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e Event) bool { return e.Replica != replica })
}

func spec(t *testing.T, part string) (Spec, *recorder) {
	t.Helper()
	s, err := fakeSpec(part)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	s.Line = Prefixed(r)
	s.Notify = func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	return s, r
}

func start(t *testing.T, s Spec, n int) *Set {
	t.Helper()
	set, err := Start(t.Context(), s, n)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := set.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return set
}

// tell posts to a fake service's admin listener.
func tell(t *testing.T, r *Replica, path, body string) {
	t.Helper()
	url := "http://" + r.Status().Admin + path
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// alive reports whether there is such a process that is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && len(rest) > 0 && rest[0] != 'Z'
}

func TestReadinessDecidesWhichReplicasAreListed(t *testing.T) {
	t.Parallel()
	s, _ := spec(t, "serve")
	set := start(t, s, 2)
	first, second := set.Replicas()[0], set.Replicas()[1]
	list, a, b := set.Backends(), first.Status(), second.Status()
	if want := []Backend{
		{"fake-1", a.API},
		{"fake-2", b.API},
	}; !slices.Equal(list, want) || a.API == b.API || a.Starts != 1 ||
		!a.Ready {
		t.Errorf("listed are %v; %+v and %+v", list, a, b)
	}
	tell(t, first, "/set?ready=false", "")
	waittest.Eventually(t, "the one that is not ready is unlisted", func() bool {
		list := set.Backends()
		return len(list) == 1 && list[0].Name == "fake-2"
	})
	tell(t, first, "/set?ready=true", "")
	waittest.Eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
	if a, b := first.Status(), second.Status(); a.Starts != 1 || a.Flips != 1 || b.Flips != 0 {
		t.Errorf("%+v and %+v, want one flip of the first", a, b)
	}
	if err := second.Pause(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the paused one is unlisted", func() bool { return len(set.Backends()) == 1 })
	if err := second.Resume(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
}

func TestStartFailsWithTheReason(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Spec, func()){
		"ended before it was ready: exit status 1 (fake: DATABASE_URL is required)": func(s *Spec, _ func()) {
			s.Environ[fakeVariable] = "refuses"
		},
		"was not ready within 100ms: it has not said where it listens": func(s *Spec, _ func()) {
			s.StartTimeout = 100 * time.Millisecond
		},
		"/nonexistent/counts": func(s *Spec, _ func()) { s.Path = "/nonexistent/counts" },
		"context canceled":    func(_ *Spec, cancel func()) { cancel() },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s, _ := spec(t, "silent")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			change(&s, cancel)
			if _, err := Start(ctx, s, 2); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want it to contain %q", err, want)
			}
		})
	}
}

// A worker has no API: its admin listener alone is awaited. A set stops all replicas in order, a paused one too.
func TestStopEndsAllBySIGTERM(t *testing.T) {
	t.Parallel()
	s, r := spec(t, "worker")
	s.NoAPI, s.Args = true, []string{"work"}
	set, err := Start(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{set.Replicas()[0].Status().PID, set.Replicas()[1].Status().PID}
	if err := errors.Join(set.Replicas()[1].Pause(), set.Stop(t.Context()), set.Stop(t.Context())); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if alive(pids[0]) || alive(pids[1]) || len(set.Backends()) != 0 || set.Replicas()[0].Kill() == nil {
		t.Errorf("after the stop there is %v, %v", pids, set.Backends())
	}
	for _, name := range []string{"fake-1", "fake-2"} {
		if got := r.of(name); len(got) != 1 || got[0].Kind != Ready {
			t.Errorf("events of %s: %+v, want one: ready", name, got)
		}
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for want, timeout := range map[string]time.Duration{
		"did not stop within 200ms and was killed": 200 * time.Millisecond, "was killed": time.Hour,
	} {
		s, _ := spec(t, "deaf")
		s.StopTimeout = timeout
		set, err := Start(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if timeout == time.Hour {
			cancel()
		}
		pid := set.Replicas()[0].Status().PID
		if err := set.Stop(ctx); err == nil || !strings.Contains(err.Error(), want) || alive(pid) {
			t.Errorf("stop: %v, want %s; alive %t", err, want, alive(pid))
		}
		cancel()
	}
}

func TestAReplicaThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	s, r := spec(t, "serve")
	set := start(t, s, 2)
	before := set.Replicas()[1].Status()
	if err := set.Replicas()[1].Kill(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "both events are there", func() bool { return len(r.of("fake-2")) == 3 })
	after, got := set.Replicas()[1].Status(), r.of("fake-2")
	if after.PID == before.PID || after.Starts != 2 || len(set.Backends()) != 2 || set.Backends()[1].Addr != after.API {
		t.Errorf("before %+v, after %+v, backends %v", before, after, set.Backends())
	}
	// The first pause is 100 ms x 0.5 to 1.5.
	if e := got[1]; e.Kind != Ended || e.PID != before.PID || e.Starts != 1 ||
		e.Err == nil || e.Err.Error() != "signal: killed" ||
		e.Pause < firstPause/2 || e.Pause > firstPause*3/2 ||
		got[2].Kind != Ready {
		t.Errorf("its end is reported as %+v, its start as %+v", e, got[2])
	}
	if err := set.Replicas()[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	if list := set.Backends(); len(list) == 2 && list[0].Addr == before.API {
		t.Errorf("a terminated replica is still listed: %v", list)
	}
	waittest.Eventually(t, "it is listed again",
		func() bool { return set.Replicas()[0].Status().Starts == 2 && len(set.Backends()) == 2 })
	if flips := set.Replicas()[0].Status().Flips; flips != 0 {
		t.Errorf("its end counts as %d flips", flips)
	}
}

// The program that runs a set is killed, and its replicas end.
func TestReplicasEndWithTheirParent(t *testing.T) {
	t.Parallel()
	s, _ := spec(t, "parent")
	cmd := exec.CommandContext(t.Context(), s.Path)
	cmd.Env = []string{fakeVariable + "=parent"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pids [2]int
	if _, err := fmt.Sscan(line, &pids[0], &pids[1]); err != nil || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("%q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports that it was killed
	waittest.Eventually(t, "the replicas have ended", func() bool { return !alive(pids[0]) && !alive(pids[1]) })
}

func TestLinesArePassedOnWithTheirReplica(t *testing.T) {
	t.Parallel()
	s, r := spec(t, "serve")
	s.Args = []string{"serve", "-x"}
	set := start(t, s, 2)
	long := strings.Repeat("x", 3*maxLine/2)
	for _, line := range []string{"plain \\ words", long, ""} {
		tell(t, set.Replicas()[1], "/say", line)
	}
	for _, want := range []string{
		`fake-1 | {"level":"INFO","msg":"config","args":"serve -x"}` + "\n",
		"fake-2 | plain \\ words\n",
		"fake-2 | " + long[:maxLine] + "\n",
		"fake-2 | " + long[maxLine:] + "\n",
	} {
		waittest.Eventually(t, want[:min(len(want), 60)], func() bool { return strings.Contains(r.printed(), want) })
	}
}

// Lines that are half or hostile do not confuse the set.
func TestNote(t *testing.T) {
	t.Parallel()
	p := &process{}
	for _, line := range []string{
		`{"msg":"listening"`, `{}`, `{"msg":"we are \"listening\" now","server":"api","addr":"x"}`,
		`[1]`, `{"msg":1,"x":"listening"}`,
		`{"level":"ERROR","msg":"it broke","error":"badly"}`,
		`{"msg":"listening","server":"internal","addr":"i"}`, `{"msg":"listening","server":"admin","addr":"b"}`,
	} {
		p.note([]byte(line))
	}
	if _, _, known := p.addrs(); known {
		t.Error("the addresses are known without that of the API")
	}
	p.note([]byte(`{"msg":"listening","server":"api","addr":"a"}`))
	if api, admin, known := p.addrs(); api != "a" || admin != "b" || !known || p.lastError != "it broke: badly" {
		t.Errorf("addresses %q and %q, known %t, last error %q", api, admin, known, p.lastError)
	}
}
