package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

func TestProveFlags(t *testing.T) {
	t.Parallel()
	o, err := parseProve(process{stderr: io.Discard}, strings.Fields("--service counts --replicas 2 --for 40s --faults kill,term --seed 5"))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.services) != 1 || o.replicas != 2 || o.length != 40*time.Second || o.seed != 5 ||
		!slices.Equal(o.faults, []string{"kill", "term"}) {
		t.Errorf("%+v", o)
	}
	if _, err := parseProve(process{stderr: io.Discard}, []string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for line, want := range map[string]string{
		"--service tea":  `"tea"`,
		"counts":         `"counts"`,
		"--replicas 1":   "--replicas",
		"--faults storm": `"storm"`,
		"--for 10s":      "less than",
	} {
		err := runProve(t.Context(), process{stdout: io.Discard, stderr: io.Discard}, strings.Fields(line))
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(usage.text, want) {
			t.Errorf("%s: error %v, want one that mentions %s", line, err, want)
		}
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
