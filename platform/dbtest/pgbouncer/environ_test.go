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
	p := &Pooler{program: program, dir: dir, probe: "postgres://u@127.0.0.1:1/db?sslmode=disable"}
	err := p.launch(t.Context())
	if err == nil || !strings.Contains(err.Error(), "PATH=") || strings.Contains(err.Error(), "opensesame") {
		t.Errorf("its environment: %v", err)
	}
}
