package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rowlock/rowlock/platform/config"
)

// BinariesVariable names the environment variable with a folder of binaries that
// were built this moment: `make test` sets it, or each package that runs services
// would build them again.
const BinariesVariable = "ROWLOCK_BINARIES"

// Binary returns the path of a service's binary. In order of preference it is
// the one in the folder of [BinariesVariable], the one beside the running program
// (bin/, an image), the one built from the source tree that the working folder lies
// in, the one on PATH.
//
// In a source tree it is always built, into bin/: that takes a blink when
// nothing has changed, and a stale binary would test yesterday's code. What the
// compiler says goes to progress.
func Binary(ctx context.Context, service string, progress io.Writer) (string, error) {
	return find(ctx, config.Environ()[BinariesVariable], service, progress)
}

func find(ctx context.Context, folder, service string, progress io.Writer) (string, error) {
	if folder != "" {
		path := filepath.Join(folder, service)
		if !isProgram(path) {
			return "", fmt.Errorf("%s names the folder %s, where there is no program %s", BinariesVariable, folder, service)
		}
		return path, nil
	}
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

func build(ctx context.Context, root, service string, progress io.Writer) (_ string, err error) {
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
	path, fresh := filepath.Join(bin, service), filepath.Join(aside, service)
	if err := copyProgram(path, fresh); err != nil {
		return "", fmt.Errorf("build %s: %w", service, err)
	}
	// As make build does, whose packages are in Go's cache.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", fresh, "./services/"+service+"/cmd/"+service)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK="+filepath.Join(root, "go.work"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, progress, progress
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("build %s: the go command is not on PATH", service)
		}
		return "", fmt.Errorf("build %s: %w", service, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("put %s into %s: %w", service, bin, err)
	}
	return path, nil
}

// copyProgram copies what was built last time, if anything was: the go command
// sees by it that nothing has changed, and does not link the program again.
func copyProgram(from, to string) error {
	old, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the last one: %w", err)
	}
	if err := os.WriteFile(to, old, 0o755); err != nil {
		return fmt.Errorf("copy the last one: %w", err)
	}
	return nil
}
