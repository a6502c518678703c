package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
)

// TestProgress runs a command on a terminal and in a pipe: the terminal shows how far it is and holds the same lines at
// the end, and the pipe gets nothing else.
func TestProgress(t *testing.T) {
	t.Parallel()
	args := strings.Fields("check --counts http://127.0.0.1:1 --pyggpot http://127.0.0.1:1")
	var screen, pipe bytes.Buffer
	p := process{stdin: strings.NewReader(""), stdout: &pipe, stderr: &pipe, hurry: t.Context()}
	run(t.Context(), p, args)
	p.stdout, p.stderr, p.terminal = &screen, &screen, &screen
	run(t.Context(), p, args)

	for _, want := range []string{"checking counts, 1 of 2", "checking pyggpot, 2 of 2"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the terminal got %q, want it to contain %q", screen.String(), want)
		}
	}
	erased := regexp.MustCompile(`[^\n]*`+regexp.QuoteMeta(eraseLine)).ReplaceAllString(screen.String(), "")
	if erased != pipe.String() {
		t.Errorf("the terminal shows %q at the end, the pipe got %q", erased, pipe.String())
	}
}

// An unfinished line of an output stands in the progress until it is finished, and no other output gets it.
func TestUnfinishedLine(t *testing.T) {
	t.Parallel()
	var out, other, terminal bytes.Buffer
	p, line := process{stdout: &out, stderr: &other, terminal: &terminal}.withProgress()
	say(p.stdout, "first")
	_, _ = p.stdout.Write([]byte("second"))
	if out.String() != "first\n" || !strings.Contains(terminal.String(), "preparing  second") {
		t.Errorf("printed %q, and the terminal got %q", out.String(), terminal.String())
	}
	say(p.stderr, "a warning")
	say(p.stdout, " half")
	_, _ = p.stdout.Write([]byte("third"))
	line.stop()
	if out.String() != "first\nsecond half\nthird" || other.String() != "a warning\n" {
		t.Errorf("printed %q and %q", out.String(), other.String())
	}
}

// The time that is left counts down, and what the windows took beyond their time is expected of the others.
func TestTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := func(name string) prove.Window { return prove.Window{Name: name, For: 10 * time.Second} }
		left := timeLeft{windows: []prove.Window{window("none"), window("kill"), window("term")}}
		text := left.of(window("none"))
		time.Sleep(4 * time.Second)
		if got, want := text(), "window none, 1 of 3; about 26s left"; got != want {
			t.Errorf("%q, want %q", got, want)
		}

		time.Sleep(11 * time.Second)
		text = left.of(window("kill"))
		if got, want := text(), "window kill, 2 of 3; about 30s left"; got != want {
			t.Errorf("after 15 s of 10: %q, want %q", got, want)
		}
	})
}

// The object of check --json has each check, and the exit status is the same as without.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := process{stdin: strings.NewReader(""), stdout: &out, stderr: new(bytes.Buffer), hurry: t.Context()}
	if status := run(t.Context(), p, strings.Fields("check --json --counts http://127.0.0.1:1")); status != exitError {
		t.Errorf("status %d, want %d", status, exitError)
	}
	var report checkReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if report.OK || len(report.Checks) != 1 {
		t.Fatalf("the report is %+v, want one check that fails", report)
	}
	one := report.Checks[0]
	if one.Name != "counts" || one.Outcome != "fails" || !strings.Contains(one.Sentence, "connection refused") ||
		strings.Contains(one.Sentence, "FAILED") {
		t.Errorf("the check is %+v, want the failure of counts", one)
	}
}
