package acceptance

import (
	"context"
	"maps"
	"os"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/replica"
	"github.com/rowlock/rowlock/platform/config"
)

// binaries builds each service once per run.
var binaries = struct { //nolint:gochecknoglobals // what it keeps is the same for all tests
	sync.Mutex

	paths map[string]string
}{paths: map[string]string{}}

func binary(t *testing.T, service string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.paths[service]; path != "" {
		return path
	}
	path, err := replica.Binary(context.WithoutCancel(t.Context()), service, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	binaries.paths[service] = path
	return path
}

// replicas runs n processes of what spec says, on the database, until the test
// ends; variables go over the defaults.
func replicas(t *testing.T, n int, spec replica.Spec, dsn string, variables ...map[string]string) *replica.Set {
	t.Helper()
	spec.Environ = map[string]string{"DATABASE_URL": dsn, "SHUTDOWN_DELAY": "300ms", "PATH": config.Environ()["PATH"]}
	for _, some := range variables {
		maps.Copy(spec.Environ, some)
	}
	spec.Line = errorsOnly(t)
	spec.Notify = func(e replica.Event) {
		if e.Kind == replica.Ended {
			t.Logf("%s (process %d) ended: %v", e.Replica, e.PID, e.Err)
		}
	}
	set, err := replica.Start(t.Context(), spec, n)
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
