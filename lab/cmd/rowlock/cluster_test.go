package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// drive ends when its input does, and prints one line that a program can read.
func TestDriveEndsWithItsInput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"added":20}`
		if r.Method == http.MethodGet {
			answer = `{"listentries":[]}`
		}
		_, _ = fmt.Fprint(w, answer)
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
