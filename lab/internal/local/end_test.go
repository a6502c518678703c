package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

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
