package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/bench"
)

func TestBenchFlags(t *testing.T) {
	t.Parallel()

	got, err := parseBenchFlags(strings.Fields("counts --runs 5 --duration 3s --replicas 4 --only uniform,hot-1 --out x"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	if o := got.options; got.service != "counts" || got.out != "x" || o.Runs != 5 || o.Duration != 3*time.Second || o.Replicas != 4 ||
		!slices.Equal(o.Only, []string{"uniform", "hot-1"}) || !o.Judge {
		t.Errorf("%+v", got)
	}

	if got, err = parseBenchFlags([]string{"--quick"}, io.Discard); err != nil || got.service != "counts" || got.options.Judge {
		t.Errorf("--quick: %+v, %v; want counts without a judgement", got, err)
	}

	if _, err := parseBenchFlags([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

func TestBenchFlagsRefused(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		"tea":                      `"tea"`,
		"counts uniform":           `"uniform"`,
		"counts --runs 0":          "runs",
		"counts --only lukewarm":   `"lukewarm"`,
		"counts --connections 1":   "connections",
		"counts --duration 10ms":   "duration",
		"counts --quick --rate -1": "rate",
	} {
		_, err := parseBenchFlags(strings.Fields(line), io.Discard)

		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(usage.text, want) {
			t.Errorf("%s: error %v, want one that mentions %s", line, err, want)
		}
	}

	var status exitStatus
	if _, err := parseBenchFlags([]string{"--fast"}, io.Discard); !errors.As(err, &status) || status != exitUsage {
		t.Errorf("--fast: %v, want exit status %d", err, exitUsage)
	}
}

func TestSaveReport(t *testing.T) {
	t.Parallel()

	dir, report := filepath.Join(t.TempDir(), "new", "folder"), &bench.Report{Service: "counts"}
	for range 2 { // the second time over the first
		if err := saveReport(report, dir, io.Discard); err != nil {
			t.Fatal(err)
		}
	}

	raw, err := os.ReadFile(filepath.Join(dir, "counts.json"))
	if err != nil {
		t.Fatal(err)
	}

	var again bench.Report
	if err := json.Unmarshal(raw, &again); err != nil || again.Service != "counts" {
		t.Errorf("%v, %v", again, err)
	}

	if plot, err := os.ReadFile(filepath.Join(dir, "counts.svg")); err != nil || !strings.HasPrefix(string(plot), "<svg ") {
		t.Errorf("%.20s, %v", plot, err)
	}

	if err := saveReport(report, "", io.Discard); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

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

	allGone(t, below, 0)
}
