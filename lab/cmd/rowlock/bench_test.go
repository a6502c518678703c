package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localmaria"
)

// Replicas that do not stop hold the end of a bench up: the second signal does not wait for them.
func TestTheSecondSignalEndsABench(t *testing.T) {
	t.Parallel()

	r := start(t, nil, "bench", "counts", "--quick", "--out", "", "--only", "uniform")
	r.await("making ")

	below, stopped := descendants(t, r.cmd.Process.Pid), 0

	for pid, name := range below {
		if strings.HasPrefix(name, "(counts)") {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}

			stopped++
		}
	}

	if stopped == 0 {
		t.Fatalf("no replica among %v", below)
	}

	begin := time.Now()

	r.signal(syscall.SIGINT)
	r.signal(syscall.SIGTERM)

	if status := r.end(); status == 0 {
		t.Error("an interrupted bench ended with status 0")
	}

	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}

	allGone(t, below)
}

// The bench of events, once through what differs from the other benches: two sizes, workers, MariaDB.
func TestBenchOfEvents(t *testing.T) {
	t.Parallel()

	dir := folder(t)
	// Without it the bench leaves MariaDB out; in CI it must not.
	_, err := localmaria.Start(t.Context(), localmaria.Options{Parent: dir + "/none"})
	if errors.Is(err, localmaria.ErrNotInstalled) && config.Environ()["CI"] != "true" {
		t.Skip(err)
	}

	r := start(t, nil, "bench", "events", "--quick", "--out", "", "--only", "claim-few,mariadb-work-4")
	if status := r.end(); status != 0 {
		t.Fatalf("it ended with status %d", status)
	}

	if !strings.Contains(r.output(), "sum exact") {
		t.Error("the sum of what the workers did is not exact")
	}
}
