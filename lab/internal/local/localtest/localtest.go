// Package localtest runs processes of a service for the length of a test.
package localtest

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/config"
)

// Binary returns the path of a service's binary, built from this source tree.
func Binary(t testing.TB, service string) string {
	t.Helper()
	path, err := local.Binary(context.WithoutCancel(t.Context()), service, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Start runs n processes of spec on the database until the test ends. The variables overwrite the defaults. Of what
// the processes write, lines that are no JSON are logged, and errors but for unknown outcomes, which clients got as
// answers.
func Start(t testing.TB, n int, spec local.Spec, dsn string, variables ...map[string]string) *local.Set {
	t.Helper()
	spec.Environ = map[string]string{"DATABASE_URL": dsn, "SHUTDOWN_DELAY": "300ms", "PATH": config.Environ()["PATH"]}
	for _, some := range variables {
		maps.Copy(spec.Environ, some)
	}

	write := local.Prefixed(t.Output())
	spec.Line = func(name string, line []byte) {
		text := string(line)
		if line[0] != '{' ||
			(strings.Contains(text, `"level":"ERROR"`) && !strings.Contains(text, `"code":"OUTCOME_UNKNOWN"`)) {
			write(name, line)
		}
	}

	spec.Say = func(sentence string) { t.Log(sentence) }
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
