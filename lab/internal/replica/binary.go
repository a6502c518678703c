package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Binary returns the path of a service's binary. In order of preference it is
// the one beside the running program (bin/, an image), the one built from the
// source tree that the working folder lies in, the one on PATH.
//
// In a source tree it is always built, into bin/: that takes a blink when
// nothing has changed, and a stale binary would test yesterday's code. What the
// compiler says goes to progress.
func Binary(ctx context.Context, service string, progress io.Writer) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), service)
	if isProgram(beside) {
		return beside, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	if root, ok := sourceRoot(wd, service); ok {
		return build(ctx, root, service, progress)
	}
	path, err := exec.LookPath(service)
	if err != nil {
		return "", fmt.Errorf("no binary of %s: neither beside %s nor on PATH, and %s is not in Rowlock's source tree", service, self, wd)
	}
	return path, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// sourceRoot looks upwards for the folder that holds go.work and the service.
func sourceRoot(dir, service string) (string, bool) {
	for {
		_, workErr := os.Stat(filepath.Join(dir, "go.work"))
		_, mainErr := os.Stat(filepath.Join(dir, "services", service, "cmd", service))
		if workErr == nil && mainErr == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func build(ctx context.Context, root, service string, progress io.Writer) (path string, err error) {
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for binaries: %w", err)
	}
	// Built aside and renamed: another rowlock may be running the old one, and
	// test binaries of several packages may be building at once.
	aside, err := os.MkdirTemp(bin, ".build-")
	if err != nil {
		return "", fmt.Errorf("make the folder to build %s in: %w", service, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()

	// Nobody to read it is no reason to stop.
	_, _ = fmt.Fprintf(progress, "Building %s\n", service)
	fresh := filepath.Join(aside, service)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", fresh, "./services/"+service+"/cmd/"+service)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, progress, progress
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("build %s: the go command is not on PATH", service)
		}
		return "", fmt.Errorf("build %s: %w", service, err)
	}
	path = filepath.Join(bin, service)
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("put %s into %s: %w", service, bin, err)
	}
	return path, nil
}
