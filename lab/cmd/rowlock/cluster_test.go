package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What check and drive refuse on their command lines, and what they answer.
func TestCheckAndDriveCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"check":                              "at least one service",
		"check --gin=http://x":               "unknown flag: --gin",
		"check counts":                       `unexpected argument "counts"`,
		"drive counts":                       "drive needs a service (counts, events",
		"drive --rate=x counts http://x":     "invalid argument",
		"drive --rate=0 counts http://x":     "at least 1",
		"drive gin http://x":                 `no service "gin"`,
		"check --counts=http://127.0.0.1:1/": "connection refused",
	} {
		var out, errs strings.Builder
		status := run(t.Context(), process{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}, strings.Fields(line))
		if status == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("rowlock %s: status %d, %s, want %s", line, status, errs.String(), want)
		}
	}
	var out, errs strings.Builder
	if status := run(t.Context(), process{stdout: &out, stderr: &errs}, []string{"check", "--help"}); status != exitOK {
		t.Errorf("check --help: status %d", status)
	}
}

// drive ends when its input does, and prints one line that a program can read.
func TestDriveEndsWithItsInput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, `{"items":0}`)
		}
	}))
	defer server.Close()
	var out, errs strings.Builder
	p := process{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	status := run(t.Context(), p, []string{"drive", "--rate=1", "iidy", server.URL})
	if status != exitOK || !strings.HasPrefix(out.String(), `{"service":"iidy","acknowledged":0,`) ||
		!strings.Contains(out.String(), "nothing was acknowledged") {
		t.Errorf("status %d, %s %s", status, out.String(), errs.String())
	}
}
