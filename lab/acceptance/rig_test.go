package acceptance

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// start runs n replicas of a service on the database; variables go over the defaults.
func start(t *testing.T, service string, n int, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	return startCommand(t, service, "serve", n, dsn, variables)
}

// startCommand runs n processes of a service's command, such as its workers'.
func startCommand(t *testing.T, service, command string, n int, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	return startBinary(t, service, localtest.Binary(t, service), command, n, dsn, variables)
}

func startBinary(
	t *testing.T, service, path, command string, n int, dsn string, variables map[string]string,
) *local.Set {
	t.Helper()
	s, err := services.Named(service)
	if err != nil {
		t.Fatal(err)
	}
	spec := local.Spec{Service: service + "-" + command, Path: path, Command: command}
	return localtest.Start(t, n, spec, dsn, s.Environ, variables)
}

// urls returns the addresses of the APIs of all replicas.
func urls(set *local.Set) []string {
	var list []string
	for _, r := range set.Replicas() {
		list = append(list, "http://"+r.Status().API)
	}
	return list
}

// balanced puts a balancer before the set and returns its address.
func balanced(t *testing.T, set *local.Set) string {
	t.Helper()
	b, err := local.NewBalancer(t.Context(), "a service", 0)
	if err != nil {
		t.Fatal(err)
	}
	b.To(set)
	t.Cleanup(func() {
		if err := b.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return b.URL()
}

// options returns those that every client of the tests has.
func options() rowlock.Option { return rowlock.WithHTTPClient(services.HTTPClient()) }

// answer holds what a request was answered.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request whose bytes matter. It may take minutes: a body may be of a million lines.
func send(t *testing.T, method, url string, body io.Reader) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		return answer{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, errors.Join(err, resp.Body.Close())
}

func dial(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// scan reads one row of a PostgreSQL database.
func scan(t *testing.T, dsn, query string, into ...any) {
	t.Helper()
	if err := dial(t, dsn).QueryRowContext(t.Context(), query).Scan(into...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// within waits for a condition longer than waittest.Eventually does.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); !condition(); <-tick.C {
		if time.Since(begin) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// lookForDeadlocks lets the database look for a deadlock when a lock was waited
// for 5 ms. A group of changes waits 50 ms for a row before it goes on without
// it, so by default, a second, none would ever be seen.
func lookForDeadlocks(t *testing.T, dsn string) {
	t.Helper()
	_, err := dial(t, dsn).ExecContext(t.Context(), //nolint:forbidigo // a setting, which may be made twice
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''5ms''', current_database()); END $$`)
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoDeadlock stops the replicas and reads how many deadlocks the database has
// seen. Sessions report when they end, so all others are ended first.
func wantNoDeadlock(t *testing.T, set *local.Set, dsn string) {
	t.Helper()
	if err := set.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := dial(t, dsn)
	within(t, 10*time.Second, "no other session is left", func() bool {
		var others int
		err := db.QueryRowContext(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
		return err == nil && others == 0
	})
	var n int
	scan(t, dsn, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`, &n)
	if n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
