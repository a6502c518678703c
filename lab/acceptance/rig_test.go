package acceptance

import (
	"os"
	"testing"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// start runs a replica of a service on the database; variables go over the defaults.
func start(t *testing.T, service, dsn string, variables map[string]string) *local.Replica {
	t.Helper()
	return startCommand(t, service, localtest.Binary(t, service), "serve", dsn, variables)
}

// startCommand runs a command of a service's binary, such as its worker.
func startCommand(t *testing.T, service, path, command, dsn string, variables map[string]string) *local.Replica {
	t.Helper()
	s, err := targets.Named(service)
	if err != nil {
		t.Fatal(err)
	}
	spec := local.Spec{Service: service + "-" + command, Path: path, Command: command}
	return localtest.Start(t, 1, spec, dsn, s.Environ, variables).Replicas()[0]
}

// startAll runs a replica of a service, and a worker where it has workers, and returns the address of its API.
func startAll(t *testing.T, s targets.Service, dsn string, variables map[string]string) (api string) {
	t.Helper()
	api = url(start(t, s.Name, dsn, variables))
	if s.Worker != "" {
		startCommand(t, s.Name, localtest.Binary(t, s.Name), s.Worker, dsn, nil)
	}
	return api
}

// database returns the DSN of a new empty database on an engine.
func database(t *testing.T, engine string) string {
	t.Helper()
	if engine == targets.MySQL {
		return dbtest.EmptyMariaDB(t)
	}
	return dbtest.Empty(t)
}

// url returns the address of a replica's API.
func url(replica *local.Replica) string { return "http://" + replica.Status().API }

// options returns those that every client of the tests has: each call is sent once.
func options() []rowlock.Option { return targets.Once(targets.HTTPClient()) }
