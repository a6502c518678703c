package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	batch = "/iidy/v1/batch/lists/downloads"
	items = "/iidy/v1/lists/downloads"
)

// replica is a running replica of the service.
type replica struct{ *apptest.Replica }

// start runs a replica on a new database.
func start(t *testing.T, environ map[string]string) *replica {
	t.Helper()
	return startOn(t, dbtest.Postgres(t, postgres.Migrations()), environ)
}

// startOn runs a replica until the test ends or Stop is called.
func startOn(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	return &replica{apptest.Run(t, app.Service(), dsn, map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	}, environ)}
}

// want sends a request and compares status and body, without its line break.
func (r *replica) want(t *testing.T, method, path, body string, status int, want string) apptest.Answer {
	t.Helper()
	a := apptest.Send(t, method, r.API+path, body, nil)
	if a.Status != status || strings.TrimSuffix(a.Body, "\n") != want {
		t.Errorf("%s %s %.40q: %s, want %d %s", method, path, body, a, status, want)
	}
	return a
}

// numbers returns n lines.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()
}
