package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/rowlock/rowlock/platform/config"
)

// BinariesVariable names the environment variable with a folder of binaries that were just built: `make test` sets it,
// so that not every package builds them again.
const BinariesVariable = "ROWLOCK_BINARIES"

// Binary returns the path of a service's binary. It is the first of: the one in the folder of [BinariesVariable], the
// one beside the running program (bin/, an image), the one built from the source tree around the working folder, into
// bin/. The compiler's output goes to progress.
func Binary(ctx context.Context, service string, progress io.Writer) (string, error) {
	if folder := config.Environ()[BinariesVariable]; folder != "" {
		path := filepath.Join(folder, service)
		if !isProgram(path) {
			return "", fmt.Errorf("%s names the folder %s, which has no program %s", BinariesVariable, folder, service)
		}
		return path, nil
	}

	self, selfErr := os.Executable()
	wd, err := os.Getwd()
	if err = errors.Join(selfErr, err); err != nil {
		return "", err
	}
	if beside := filepath.Join(filepath.Dir(self), service); isProgram(beside) {
		return beside, nil
	}
	if root, ok := sourceRoot(wd, service); ok {
		return build(ctx, root, service, progress)
	}
	return "", fmt.Errorf("no binary of %s: it is not beside %s, and %s is not in Rowlock's source tree",
		service, self, wd)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// sourceRoot looks upwards for the folder that holds go.work and the service.
func sourceRoot(dir, service string) (string, bool) {
	for above := filepath.Dir(dir); ; dir, above = above, filepath.Dir(above) {
		_, workErr := os.Stat(filepath.Join(dir, "go.work"))
		_, mainErr := os.Stat(filepath.Join(dir, "services", service, "cmd", service))
		if workErr == nil && mainErr == nil {
			return dir, true
		}
		if dir == above {
			return "", false
		}
	}
}

// build builds the service into bin/. A lock keeps test binaries of several packages from building at once; the second
// one finds nothing to do.
func build(ctx context.Context, root, service string, progress io.Writer) (_ string, err error) {
	path := filepath.Join(root, "bin", service)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(root, "bin", ".lock"))
	if err == nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(progress, "Building %s\n", service) // the build goes on without a reader
	return path, Build(ctx, root, service, path, progress)
}

// Build builds a service of the source tree root into the file path, by the tags of make build, whose packages are in
// Go's cache, without what only a debugger reads, and with more flags.
func Build(ctx context.Context, root, service, path string, progress io.Writer, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./services/"+service+"/cmd/"+service)...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK=") // the workspace of root
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", service, err)
	}
	return nil
}
