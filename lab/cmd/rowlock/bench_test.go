package main

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/lab/internal/bench"
)

func TestBenchFlags(t *testing.T) {
	t.Parallel()
	parse := func(line string) benchFlags {
		f := benchFlags{options: bench.Defaults("counts")}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.define(set)
		if err := errors.Join(set.Parse(strings.Fields(line)), f.validate()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		return f
	}
	got := parse("--runs 5 --duration 3s --replicas 4 --only uniform,hot-1 --out x")
	if o := got.options; got.out != "x" || o.Runs != 5 || o.Duration != 3*time.Second || o.Replicas != 4 ||
		!slices.Equal(o.Only, []string{"uniform", "hot-1"}) || !o.Judge {
		t.Errorf("%+v", got)
	}
	if got := parse("--quick"); got.options.Judge {
		t.Errorf("--quick judges: %+v", got)
	}
	for line, want := range map[string]string{
		"bench tea":                      `"tea"`,
		"bench counts uniform":           `"uniform"`,
		"bench counts --runs 0":          "runs",
		"bench counts --only lukewarm":   `"lukewarm"`,
		"bench --connections 1":          "connections",
		"bench counts --duration 10ms":   "duration",
		"bench counts --quick --rate -1": "rate",
		"bench counts --fast":            "--fast",
	} {
		refused(t, line, want)
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

	allGone(t, below)
}
