// Package dbtest gives each test a separate database on a real PostgreSQL: a copy, in about 30 ms, of
// a template with the migrated schema, on one server per run. For tests only; depguard forbids other
// imports.
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
//
//	func TestIncrease(t *testing.T) {
//		t.Parallel()
//		dsn := dbtest.Postgres(t, postgres.Migrations())
//		...
//	}
//
// ROWLOCK_TEST_DATABASE_URL names the server, with a role that may create databases; `make test`
// starts one for all packages. Without the variable, a private server starts when the first test asks
// for a database. It ends with the process, even after a kill -9.
//
// [MariaDB] does the same on a private MariaDB server, or on the server of ROWLOCK_TEST_MYSQL_URL. It
// applies the migrations for each database.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
)

// URLVariable names the environment variable with the URL of a server to test on.
const URLVariable = "ROWLOCK_TEST_DATABASE_URL"

// waitLimit bounds a test's wait for the server: for its start, or for a template that another process
// is building.
const waitLimit = 2 * time.Minute

// process is the server that the tests of this process share.
var process server

type server struct {
	once sync.Once
	err  error
	url  string          // a database to create others from
	own  *localpg.Server // nil on a server of URLVariable

	mu        sync.Mutex
	templates map[string]bool // by name
}

// Main runs the tests, then stops the private servers, and returns the exit code for TestMain.
func Main(m interface{ Run() int }) int {
	code := m.Run()

	var err error
	if process.own != nil {
		err = process.own.Stop(context.Background())
	}
	if maria.own != nil {
		err = errors.Join(err, maria.own.Stop())
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dbtest:", err)
		return max(code, 1)
	}
	return code
}

// MainWithoutLeaks does what Main does, and returns 1 if the tests have left goroutines behind.
func MainWithoutLeaks(m interface{ Run() int }) int {
	code := Main(m)
	err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
	if code == 0 && err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// start starts a server, once per process, and returns the URL of a database on it.
func (s *server) start(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.open() })
	if s.err != nil {
		t.Fatalf("dbtest: %v", s.err)
	}
	return s.url
}

func (s *server) open() (err error) {
	s.templates = make(map[string]bool)
	if given := config.Environ()[URLVariable]; given != "" {
		s.url = given
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s.own, err = localpg.Start(ctx, localpg.Options{Settings: private(nil)})
	if err != nil {
		return err
	}
	s.url = s.own.URL("postgres")
	return nil
}

// private returns the settings of a temporary server. With fsync=off a power failure can lose commits,
// the death of a process cannot. synchronous_commit stays on, because without it the death of the
// server could.
func private(settings []map[string]string) map[string]string {
	all := map[string]string{"fsync": "off", "full_page_writes": "off"}
	for _, more := range settings {
		maps.Copy(all, more)
	}
	return all
}

// skipOrFail skips the test if err means that a server is not installed, except in CI. It fails the
// test for any other error.
func skipOrFail(t testing.TB, err, notInstalled error) {
	t.Helper()
	if errors.Is(err, notInstalled) && config.Environ()["CI"] != "true" {
		t.Skipf("dbtest: %v", err)
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// Server starts a server for this test only. The test may kill and restart it. Settings override those
// of the shared server, as in [localpg.Options].
func Server(t testing.TB, settings ...map[string]string) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	own, err := localpg.Start(ctx, localpg.Options{Settings: private(settings)})
	return owned(t, own, err)
}

// owned returns a server that was started for the test, and stops it when the test ends.
func owned(t testing.TB, own *localpg.Server, err error) *localpg.Server {
	t.Helper()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	stopAtEnd(t, own.Stop)
	return own
}

// stopAtEnd calls stop when the test ends.
func stopAtEnd(t testing.TB, stop func(ctx context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
}
