package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

func TestProveFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"prove --service tea":  `"tea"`,
		"prove counts":         `"counts"`,
		"prove --replicas 1":   "--replicas",
		"prove --faults storm": `"storm"`,
		"prove --for 10s":      "less than",
	} {
		refused(t, line, want)
	}
}

// A broken promise has an exit status of its own, which a run that fails by itself has not; what
// is left behind stands in the last line of either, and does not hide what was found.
func TestConclude(t *testing.T) {
	t.Parallel()
	report := func(holds bool, broken string) *prove.Report {
		checks := []prove.Check{{Name: "linearizable", OK: holds}}
		return &prove.Report{
			Seed: 4, Broken: broken, Windows: []*prove.WindowResult{{Columns: []prove.ColumnResult{{Service: "counts", Checks: checks}}}},
		}
	}
	lost := errors.New("the server is gone")
	left := leaveError{errors.New("still on the server: rowlock_prove_a")}
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
		"lost and left behind":     {report(true, lost.Error()), errors.Join(lost, left), exitError},
	} {
		var said strings.Builder
		p := process{stdout: io.Discard, stderr: &said}
		if status := exitCode(p, conclude(c.report, c.err, "", p)); status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if last := lines[len(lines)-1]; errors.As(c.err, new(leaveError)) && strings.TrimPrefix(last, "rowlock: ") != left.Error() {
			t.Errorf("%s: the last line does not name what is left:\n%s", name, said.String())
		}
	}
}

// A run that does not hear of Ctrl-C is not waited for, and one that does is.
func TestInterruptible(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silence := make(chan struct{})
	defer close(silence)
	report, err := interruptible(ctx, 50*time.Millisecond, func() (*prove.Report, error) {
		<-silence
		return &prove.Report{}, nil
	})
	if report != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", report, err)
	}
	report, err = interruptible(ctx, time.Minute, func() (*prove.Report, error) { return &prove.Report{Seed: 7}, io.EOF })
	if report == nil || report.Seed != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", report, err)
	}
}

// A window of the real thing: the command starts a server and replicas, kills one,
// and leaves a verdict that people and programs can read.
func TestProve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, nil, strings.Fields("prove --service counts --replicas 2 --clients 4 --faults kill --for 10s --seed 3 --out "+dir)...)
	if status := r.end(); status != exitOK {
		t.Fatalf("it ends with status %d", status)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "proof.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report prove.Report
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Windows) != 1 || report.Seed != 3 || len(report.Failures()) != 0 || report.Windows[0].Columns[0].Done[prove.Kill] == 0 {
		t.Errorf("%s", raw)
	}
	if out := r.output(); !strings.Contains(out, "Everything that was promised held") || !strings.Contains(out, "kill -9 (") {
		t.Errorf("it says\n%s", out)
	}
	lookAt(t, filepath.Join(dir, "proof.html"))
}

// lookAt opens the page in a browser.
func lookAt(t *testing.T, page string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not looked at")
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+page)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	for _, want := range []string{
		`id="verdict">Everything that was promised held.`, `<span class="holds">holds</span>`, `class="ok"`, `class="p99"`,
	} {
		if !strings.Contains(string(dom), want) {
			t.Errorf("the browser does not show %s", want)
		}
	}
	if strings.Contains(complaints.String(), "CONSOLE") {
		t.Errorf("the browser says %s", complaints.String())
	}
}
