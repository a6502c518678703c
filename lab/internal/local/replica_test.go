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
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

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
	set := start(t, fakeSpec("serve"), 2)
	first, second := set.Replicas()[0], set.Replicas()[1]
	a, b := first.Status(), second.Status()
	if list := set.Ready(); len(list) != 2 || list[0] != a || list[1] != b || a.API == b.API || a.Name != "fake-1" ||
		a.Starts != 1 {
		t.Errorf("listed are %+v", list)
	}
	tell(t, first, "/set?ready=false", "")
	waittest.Eventually(t, "the one that is not ready is unlisted", func() bool {
		list := set.Ready()
		return len(list) == 1 && list[0].Name == "fake-2"
	})
	tell(t, first, "/set?ready=true", "")
	waittest.Eventually(t, "it is listed again", func() bool { return len(set.Ready()) == 2 })
	if a, b := first.Status(), second.Status(); a.Starts != 1 || a.Flips != 1 || b.Flips != 0 {
		t.Errorf("%+v and %+v, want one flip of the first", a, b)
	}
}

func TestStartFailsWithTheReason(t *testing.T) {
	t.Parallel()
	missing := fakeSpec("silent")
	missing.Path = "/nonexistent/counts"
	for want, spec := range map[string]Spec{
		"ended before it was ready: exit status 1 (fake: DATABASE_URL is required)": fakeSpec("refuses"),
		missing.Path:       missing,
		"context canceled": fakeSpec("silent"),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if strings.HasPrefix(want, "context") {
			cancel()
		}
		if _, err := Start(ctx, spec, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
		cancel()
	}
}

// A worker has no API: its admin listener alone is awaited. A set stops all replicas in order, a paused one too.
func TestStopEndsAllBySIGTERM(t *testing.T) {
	t.Parallel()
	s := fakeSpec("worker")
	s.Command = "work"
	s.Say = func(sentence string) { t.Errorf("it says %s", sentence) }
	set, err := Start(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := set.Replicas()[0], set.Replicas()[1]
	pids := []int{a.Status().PID, b.Status().PID}
	if list := set.Ready(); len(list) != 0 || !a.Status().Ready {
		t.Errorf("workers take requests: %+v", list)
	}
	if err := errors.Join(b.Pause(), set.Stop(t.Context()), set.Stop(t.Context())); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if alive(pids[0]) || alive(pids[1]) || a.Status().Ready || a.Kill() == nil {
		t.Errorf("after the stop there is %v, %+v", pids, a.Status())
	}
}

func TestAReplicaThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := fakeSpec("serve")
	said := make(chan string, 4)
	s.Say = func(sentence string) { said <- sentence }
	set := start(t, s, 2)
	first, second := set.Replicas()[0], set.Replicas()[1]
	before := second.Status()
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	ended, back := <-said, <-said
	after, list := second.Status(), set.Ready()
	if after.PID == before.PID || after.Starts != 2 || len(list) != 2 || list[1] != after {
		t.Errorf("before %+v, after %+v, listed %+v", before, after, list)
	}
	if !strings.HasPrefix(ended, fmt.Sprintf("fake-2 (process %d) ended after ", before.PID)) ||
		!strings.Contains(ended, ": signal: killed; starting it again in ") ||
		back != fmt.Sprintf("fake-2 is back (process %d)", after.PID) {
		t.Errorf("it says %q and %q", ended, back)
	}
	if err := first.Terminate(); err != nil {
		t.Fatal(err)
	}
	if first.Status().Ready && first.Status().Starts == 1 {
		t.Error("a terminated replica is still listed")
	}
	waittest.Eventually(t, "it is listed again", func() bool { return first.Status().Starts == 2 && first.Status().Ready })
	if flips := first.Status().Flips; flips != 0 {
		t.Errorf("its end counts as %d flips", flips)
	}
}

// The program that runs a set is killed, and its replicas end.
func TestReplicasEndWithTheirParent(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), fakeSpec("").Path)
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
