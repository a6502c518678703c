package local

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBinary(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	deep := root + "/lab/cmd"
	for _, dir := range []string{deep, root + "/services/counts/cmd/counts"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/go.work", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := sourceRoot(deep, "counts"); !ok || got != root {
		t.Errorf("root %q, %t", got, ok)
	}
	if got, ok := sourceRoot(deep, "iidy"); ok {
		t.Errorf("root %q of a service that is not there", got)
	}
	_, err := find(t.Context(), "", "no-such-service", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no binary of no-such-service") {
		t.Errorf("error %v", err)
	}
}

// A folder of binaries that were just built is used, and nothing else is looked at.
func TestBinaryThatWasJustBuilt(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "counts")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := find(t.Context(), folder, "counts", io.Discard); got != path || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := find(t.Context(), folder, "iidy", io.Discard); err == nil ||
		!strings.Contains(err.Error(), BinariesVariable) {
		t.Errorf("one that is not there: %q, %v", got, err)
	}
}

// A binary is built again when its source has changed.
func TestBinaryIsBuiltAnew(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := root + "/services/counts/cmd/counts"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(root+"/go.work", "go 1.26\n\nuse ./services/counts\n")
	write(root+"/services/counts/go.mod", "module example.com/counts\n\ngo 1.26\n")
	for _, text := range []string{"one", "one", "two"} {
		write(folder+"/main.go", "package main\n\nfunc main() { print(`"+text+"`) }\n")
		path, err := build(t.Context(), root, "counts", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), path).CombinedOutput(); err != nil || string(out) != text {
			t.Errorf("it says %q, want %q (%v)", out, text, err)
		}
	}
}
