package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/prove"
)

// A broken promise has an exit status of its own, which a run that fails by itself has not. What
// is left behind stands in the last line of either, and does not hide what was found.
func TestConclude(t *testing.T) {
	t.Parallel()
	report := func(holds bool, broken string) *prove.Report {
		checks := []prove.Check{{Name: "linearizable", OK: holds}}
		return &prove.Report{
			Seed: 4, Broken: broken,
			Windows: []*prove.WindowResult{{Services: []prove.ServiceResult{{Service: "counts", Checks: checks}}}},
		}
	}
	lost := errors.New("the server is gone")
	left := errors.New("may still be on db:5432: rowlock_prove_a")
	for name, c := range map[string]struct {
		report *prove.Report
		err    error
		status int
	}{
		"holds":                    {report(true, ""), nil, exitOK},
		"broken promise":           {report(false, ""), nil, exitBroken},
		"lost server":              {report(true, lost.Error()), lost, exitError},
		"lost server, and promise": {report(false, lost.Error()), lost, exitBroken},
		"none was run":             {&prove.Report{}, nil, exitError},
		"left behind":              {report(true, ""), left, exitError},
		"left behind, and promise": {report(false, ""), left, exitBroken},
		"all of it":                {report(false, lost.Error()), errors.Join(lost, left), exitBroken},
	} {
		var said strings.Builder
		p := process{stdout: io.Discard, stderr: &said}
		if status := exitCode(p, conclude(c.report, c.err, "", p)); status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
		}
		if errors.Is(c.err, left) && !strings.HasSuffix(said.String(), left.Error()+"\n") {
			t.Errorf("%s: the last line does not name what is left:\n%s", name, said.String())
		}
	}
}

// proof waits for a run that succeeds and returns the report that it leaves in the folder, and its text.
func (r *rowlock) proof(t *testing.T, dir string) (report prove.Report, raw []byte) {
	t.Helper()
	if status := r.end(); status != exitOK {
		t.Fatalf("it ends with status %d", status)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "proof.json"))
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report, raw
}

// The windows on a cluster run with --cluster and only with it, on servers of the run, for a service that runs there.
func TestScheduleOnCluster(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--faults citus-move":                          "only with it; not citus-move",
		"--cluster citus --faults kill":                "only with it; not kill",
		"--cluster citus --faults earthquake":          "there is no fault",
		"--cluster mesh":                               "there is no cluster \"mesh\"; there is citus",
		"--cluster citus --dsn postgres://u@h/db":      "servers of its own",
		"--cluster citus --service events":             "no chosen service runs on Citus",
		"--cluster citus --service payments":           "no chosen service runs on Citus",
		"--cluster citus --service pyggpot":            "no chosen service runs on Citus",
		"--cluster citus --service counts --for 1m20s": "less than 8s",
	} {
		if status, text := runHere(t, nil, "prove "+line); status != exitUsage || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, it says %q, want %q", line, status, text, want)
		}
	}
	chosen, err := choose(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := proveOptions{
		Setup: prove.Setup{Replicas: 3, Clients: 8}, chosen: chosen, length: 4 * time.Minute, cluster: "citus",
	}
	if err := o.schedule(); err != nil || len(o.Windows) != len(prove.OnCitus()) || len(prove.Groups(o.Windows)) != 1 {
		t.Errorf("%d windows, %v", len(o.Windows), err)
	}
}

// A window of the real thing: the command starts a server and replicas, kills one,
// and leaves a result that people and programs can read.
func TestProve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const line = "prove --service counts --replicas 2 --clients 4 --faults kill --for 8s --seed 3 --out "
	r := start(t, nil, strings.Fields(line+dir)...)
	report, raw := r.proof(t, dir)
	if len(report.Windows) != 1 || report.Seed != 3 || len(report.Failures()) != 0 ||
		report.Windows[0].Services[0].Done[fault.Kill] == 0 {
		t.Errorf("%s", raw)
	}
	for _, want := range []string{"Everything that was promised held", "kill -9 ("} {
		if !strings.Contains(r.output(), want) {
			t.Errorf("it does not say %q:\n%s", want, r.output())
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "proof.html"))
	if err != nil || !strings.Contains(string(page), `id="result">Everything that was promised held.`) {
		t.Errorf("the page says %s, %v", page, err)
	}
}
