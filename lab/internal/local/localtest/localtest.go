// Package localtest runs processes of a service for the length of a test.
package localtest

import (
	"context"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/config"
)

// binaries keeps the paths of binaries, so that each is built once per test process.
var binaries = struct { //nolint:gochecknoglobals // what it keeps is the same for all tests
	sync.Mutex

	paths map[string]string
}{paths: map[string]string{}}

// Binary returns the path of a service's binary, built from this source tree.
func Binary(t testing.TB, service string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.paths[service]; path != "" {
		return path
	}
	path, err := local.Binary(context.WithoutCancel(t.Context()), service, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	binaries.paths[service] = path
	return path
}

// Start runs n processes of spec on the database until the test ends. The variables overwrite the defaults. Without a
// spec.Line only errors are logged.
func Start(t testing.TB, n int, spec local.Spec, dsn string, variables ...map[string]string) *local.Set {
	t.Helper()
	spec.Environ = map[string]string{"DATABASE_URL": dsn, "SHUTDOWN_DELAY": "300ms", "PATH": config.Environ()["PATH"]}
	for _, some := range variables {
		maps.Copy(spec.Environ, some)
	}
	if spec.Line == nil {
		spec.Line = ErrorsOnly(t)
	}
	spec.Notify = func(e local.Event) {
		if e.Kind == local.Ended {
			t.Logf("%s (process %d) ended: %v", e.Replica, e.PID, e.Err)
		}
	}
	set, err := local.Start(t.Context(), spec, n)
	if err != nil {
		t.Fatalf("start %s: %v", spec.Service, err)
	}
	t.Cleanup(func() {
		if err := set.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop %s: %v", spec.Service, err)
		}
	})
	return set
}

// ErrorsOnly logs the errors of replicas but for unknown outcomes, which clients got as answers, and lines that are no
// JSON.
func ErrorsOnly(t testing.TB) func(string, []byte) {
	t.Helper()
	write := local.Prefixed(t.Output())
	return func(name string, line []byte) {
		text := string(line)
		if line[0] != '{' ||
			(strings.Contains(text, `"level":"ERROR"`) && !strings.Contains(text, `"code":"OUTCOME_UNKNOWN"`)) {
			write(name, line)
		}
	}
}
