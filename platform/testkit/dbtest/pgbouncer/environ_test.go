package pgbouncer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pooler gets nothing of the caller's environment, which may hold passwords. What
// is run here in its place prints its own.
func TestEnviron(t *testing.T) {
	t.Setenv("PGPASSWORD", "opensesame-2d07")
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Pooler{dir: dir}
	p.Server = p.server(program, "", "postgres://u@127.0.0.1:1/db")
	err := p.Start(t.Context(), 0)
	text, readErr := os.ReadFile(p.LogFile())
	if err == nil || readErr != nil || !strings.Contains(string(text), "PATH=") ||
		strings.Contains(string(text), "opensesame") {
		t.Errorf("its environment: %s (%v, %v)", text, err, readErr)
	}
}
