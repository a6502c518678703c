package replica

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// events collects what a set tells.
type events struct {
	mu   sync.Mutex
	list []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

func (e *events) of(replica string) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.list), func(ev Event) bool { return ev.Replica != replica })
}

func spec(t *testing.T, part string) Spec {
	t.Helper()
	s, err := fakeSpec(part)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never so: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func get(t *testing.T, method, url, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// alive tells whether there is such a process that is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !isDir("/proc/self")
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z'
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func TestStartListsEveryReplicaAtAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 3)

	list := set.Backends()
	if len(list) != 3 {
		t.Fatalf("backends %v, want 3", list)
	}
	seen := map[string]bool{}
	for i, b := range list {
		if want := fmt.Sprintf("fake-%d", i+1); b.Name != want {
			t.Errorf("name %q, want %q", b.Name, want)
		}
		pid, err := get(t, http.MethodGet, "http://"+b.Addr+"/pid", "")
		if err != nil {
			t.Fatal(err)
		}
		if st := set.Replicas()[i].Status(); pid != strconv.Itoa(st.PID) || !st.Ready || st.Starts != 1 || st.Admin == "" {
			t.Errorf("%s answered as process %s, status %+v", b.Name, pid, st)
		}
		seen[pid] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d processes answered, want 3", len(seen))
	}
}

func TestStopEndsAllBySIGTERM(t *testing.T) {
	t.Parallel()
	var ev events
	s := spec(t, "serve")
	s.Notify = ev.add
	set, err := Start(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, r := range set.Replicas() {
		pids = append(pids, r.Status().PID)
	}
	if err := set.Replicas()[1].Pause(); err != nil { // a paused one must end too
		t.Fatal(err)
	}
	if err := set.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if got := set.Backends(); len(got) != 0 {
		t.Errorf("backends after the stop: %v", got)
	}
	for _, name := range []string{"fake-1", "fake-2"} {
		if got := ev.of(name); len(got) != 1 || got[0].Kind != Ready {
			t.Errorf("events of %s: %+v, want one: ready", name, got)
		}
	}
	if err := set.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if err := set.Replicas()[0].Kill(); err == nil {
		t.Error("a stopped replica was killed")
	}
}

func TestStopKillsTheDeaf(t *testing.T) {
	t.Parallel()
	t.Run("after the timeout", func(t *testing.T) {
		t.Parallel()
		s := spec(t, "deaf")
		s.StopTimeout = 200 * time.Millisecond
		set, err := Start(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		pid := set.Replicas()[0].Status().PID
		err = set.Stop(t.Context())
		if err == nil || !strings.Contains(err.Error(), "fake-1 did not stop within 200ms and was killed") {
			t.Errorf("stop: %v", err)
		}
		if alive(pid) {
			t.Error("it is still there")
		}
	})
	t.Run("when somebody is in a hurry", func(t *testing.T) {
		t.Parallel()
		s := spec(t, "deaf")
		s.StopTimeout = time.Hour
		set, err := Start(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- set.Stop(ctx) }()
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "fake-1 was killed") {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestADeadReplicaIsNamedAndStartedAgain(t *testing.T) {
	t.Parallel()
	var ev events
	s := spec(t, "serve")
	s.Notify = ev.add
	set := start(t, s, 2)
	before := set.Replicas()[1].Status()

	for round := 1; round <= 2; round++ {
		if err := set.Replicas()[1].Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the killed replica is back", func() bool {
			st := set.Replicas()[1].Status()
			return st.Ready && st.Starts == round+1
		})
	}
	after := set.Replicas()[1].Status()
	if after.PID == before.PID || len(set.Backends()) != 2 || set.Backends()[1].Addr != after.API {
		t.Errorf("before %+v, after %+v, backends %v", before, after, set.Backends())
	}
	eventually(t, "all events are there", func() bool { return len(ev.of("fake-2")) == 5 })
	got := ev.of("fake-2")
	for i, kind := range []EventKind{Ready, Ended, Ready, Ended, Ready} {
		if got[i].Kind != kind {
			t.Fatalf("event %d is %+v, want kind %d", i, got[i], kind)
		}
	}
	if got[1].PID != before.PID || got[1].Err == nil || got[1].Err.Error() != "signal: killed" || got[1].Starts != 1 {
		t.Errorf("the death was told as %+v", got[1])
	}
	// 100 ms, then 200 ms, each x 0.5 to 1.5.
	if p := got[1].Pause; p < 50*time.Millisecond || p >= 150*time.Millisecond {
		t.Errorf("first pause %s", p)
	}
	if p := got[3].Pause; p < 100*time.Millisecond || p >= 300*time.Millisecond {
		t.Errorf("second pause %s", p)
	}
	if st := set.Replicas()[0].Status(); st.Starts != 1 || len(ev.of("fake-1")) != 1 {
		t.Errorf("the other replica: %+v, %+v", st, ev.of("fake-1"))
	}
}

func TestTerminateUnlistsAtOnceAndForGood(t *testing.T) {
	t.Parallel()
	s := spec(t, "deaf") // stays up and ready after SIGTERM, so that listing it again would show
	s.StopTimeout = 10 * time.Millisecond
	set, err := Start(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Replicas()[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	looks := 0
	for end := time.Now().Add(5 * readyPoll); time.Now().Before(end); looks++ {
		if got := set.Backends(); len(got) != 1 || got[0].Name != "fake-2" {
			t.Fatalf("backends %v, want fake-2 alone", got)
		}
		time.Sleep(time.Millisecond)
	}
	if looks < 10 {
		t.Errorf("only %d looks", looks)
	}
	if err := set.Stop(t.Context()); err == nil {
		t.Error("deaf replicas stopped without an error")
	}
}

func TestTerminatedReplicaComesBack(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 1)
	if err := set.Replicas()[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed again", func() bool { return set.Replicas()[0].Status().Starts == 2 && len(set.Backends()) == 1 })
	if flips := set.Replicas()[0].Status().Flips; flips != 0 {
		t.Errorf("an end that was asked for counts as %d flips", flips)
	}
}

func TestReadinessDecidesWhoIsListed(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 2)
	admin := "http://" + set.Replicas()[0].Status().Admin

	if _, err := get(t, http.MethodPost, admin+"/set?ready=false", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the one that says no is unlisted", func() bool {
		b := set.Backends()
		return len(b) == 1 && b[0].Name == "fake-2"
	})
	if _, err := get(t, http.MethodPost, admin+"/set?ready=true", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
	if st := set.Replicas()[0].Status(); st.Starts != 1 {
		t.Errorf("it was started %d times, want 1: readiness kills nobody", st.Starts)
	}
	if flips := set.Replicas()[0].Status().Flips + 10*set.Replicas()[1].Status().Flips; flips != 1 {
		t.Errorf("flips %d, want 1 of the first and none of the second", flips)
	}
}

func TestAPausedReplicaLeavesAndReturns(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 2)
	if err := set.Replicas()[0].Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stalled one is unlisted", func() bool { return len(set.Backends()) == 1 })
	if err := set.Replicas()[0].Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
}

func TestStartFailsWithTheReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, part, path, want string
		cancelled              bool
	}{
		{name: "the service refuses", part: "refuses", want: "ended before it was ready: exit status 1 (fake: DATABASE_URL is required)"},
		{name: "it never listens", part: "silent", want: "was not ready within 100ms: it has not said where it listens"},
		{name: "no such binary", part: "serve", path: "/nonexistent/counts", want: "/nonexistent/counts"},
		{name: "called off", part: "silent", cancelled: true, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, tt.part)
			if tt.path != "" {
				s.Path = tt.path
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.part == "silent" {
				s.StartTimeout = 100 * time.Millisecond
			}
			if tt.cancelled {
				s.StartTimeout = time.Hour
				cancel()
			}
			set, err := Start(ctx, s, 2)
			if err == nil {
				t.Fatalf("it started: %v", set.Backends())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want it to contain %q", err, tt.want)
			}
		})
	}
	if _, err := Start(t.Context(), spec(t, "serve"), 0); err == nil {
		t.Error("0 replicas were started")
	}
}

func TestLinesAreHandedOnWithTheirReplica(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out bytes.Buffer
	s := spec(t, "serve")
	s.Args = []string{"serve", "-x"}
	s.Line = Prefixed(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}))
	set := start(t, s, 2)
	long := strings.Repeat("x", 3*maxLine/2)
	for _, line := range []string{"plain \\ words", long, ""} {
		if _, err := get(t, http.MethodPost, "http://"+set.Replicas()[1].Status().Admin+"/say", line); err != nil {
			t.Fatal(err)
		}
	}
	printed := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	for _, want := range []string{
		`fake-1 | {"level":"INFO","msg":"config","args":"serve -x"}` + "\n",
		"fake-2 | plain \\ words\n",
		"fake-2 | " + long[:maxLine] + "\n",
		"fake-2 | " + long[maxLine:] + "\n",
	} {
		eventually(t, want[:min(len(want), 60)], func() bool { return strings.Contains(printed(), want) })
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A log of a service is not always a log: hostile or half lines must not confuse the set.
// A worker serves no API: its probes alone are waited for.
func TestAProcessWithoutAnAPI(t *testing.T) {
	t.Parallel()
	spec, err := fakeSpec("worker")
	if err != nil {
		t.Fatal(err)
	}
	spec.NoAPI, spec.Args = true, []string{"work"}
	set, err := Start(t.Context(), spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if st := set.Replicas()[0].Status(); !st.Ready || st.Admin == "" || st.API != "" {
		t.Errorf("%+v", st)
	}
	if err := set.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNote(t *testing.T) {
	t.Parallel()
	p := &process{bound: make(chan struct{})}
	for _, line := range []string{
		`{"msg":"listening"`, `{}`, `{"msg":"we are \"listening\" now","server":"api","addr":"x"}`, `[1]`, `{"msg":1,"x":"listening"}`,
		`{"level":"ERROR","msg":"it broke","error":"badly"}`,
		`{"msg":"listening","server":"internal","addr":"i"}`, `{"msg":"listening","server":"admin","addr":"b"}`,
	} {
		p.note([]byte(line))
	}
	select {
	case <-p.bound:
		t.Fatal("bound without an API address")
	default:
	}
	p.note([]byte(`{"msg":"listening","server":"api","addr":"a"}`))
	p.note([]byte(`{"msg":"listening","server":"api","addr":"a2"}`)) // must not close bound twice
	<-p.bound
	if api, admin := p.addrs(); api != "a2" || admin != "b" {
		t.Errorf("addresses %q and %q", api, admin)
	}
	if p.lastError != "it broke: badly" {
		t.Errorf("last error %q", p.lastError)
	}
}

// TestReplicasEndWithTheirParent kills a program that runs two replicas.
func TestReplicasEndWithTheirParent(t *testing.T) {
	t.Parallel()
	s := spec(t, "parent")
	cmd := exec.CommandContext(t.Context(), s.Path)
	cmd.Env = []string{fakeVariable + "=parent"}
	cmd.Stderr = os.Stderr
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
	if _, err := fmt.Sscan(line, &pids[0], &pids[1]); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %d is not there", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "the replicas are gone", func() bool { return !alive(pids[0]) && !alive(pids[1]) })
}

func TestBinary(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	deep := root + "/lab/cmd"
	for _, dir := range []string{deep, root + "/services/counts/cmd/counts"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/go.work", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := sourceRoot(deep, "counts"); !ok || got != root {
		t.Errorf("root %q, %t", got, ok)
	}
	if got, ok := sourceRoot(deep, "iidy"); ok {
		t.Errorf("root %q of a service that is not there", got)
	}
	_, err := Binary(t.Context(), "no-such-service", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no binary of no-such-service") {
		t.Errorf("error %v", err)
	}
}
