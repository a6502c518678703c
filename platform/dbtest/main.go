// Package dbtest gives tests a real PostgreSQL: a database of its own for every test, cloned in some
// 30 ms from a template with the migrated schema, on one server per run. For tests only; depguard
// forbids other imports.
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
//
//	func TestIncrease(t *testing.T) {
//		t.Parallel()
//		dsn := dbtest.Postgres(t, postgres.Migrations())
//		...
//	}
//
// The server is the one that ROWLOCK_TEST_DATABASE_URL names (with a role that may create databases;
// `make test` starts one for all packages), else a private one that starts when the first test asks
// for a database and ends with the process, even after a kill -9.
//
// [MariaDB] does the same on a private MariaDB server, applying the migrations for each database.
//
// A failed test keeps its PostgreSQL database and prints its DSN. Kept databases, and those of killed
// runs, are dropped a day later.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
)

// URLVariable names the environment variable with the address of a server to test on.
const URLVariable = "ROWLOCK_TEST_DATABASE_URL"

const (
	// waitLimit bounds what a test waits for the server: its start, or a template that another process
	// is building.
	waitLimit = 2 * time.Minute
	// keepFor is how long the databases of failed and of killed tests stay.
	keepFor = 24 * time.Hour
	// dirPattern names the folders of private servers.
	dirPattern = "rowlock-test-*"
)

// process is the server that the tests of this process share.
var process server //nolint:gochecknoglobals // one server per process is the point

type server struct {
	once sync.Once
	err  error
	url  string          // of a database to create others from
	own  *localpg.Server // nil on the server of URLVariable

	mu        sync.Mutex
	kept      int
	templates map[string]string // by key
}

// Main runs the tests, then stops the private servers, and returns the exit code for TestMain.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	if err := errors.Join(process.close(os.Stderr), maria.close()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dbtest:", err)
		return max(code, 1)
	}
	return code
}

// MainWithoutLeaks does what Main does, and returns 1 when the tests have left goroutines behind.
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

func (s *server) open() error {
	s.templates = make(map[string]string)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if given := config.Environ()[URLVariable]; given != "" {
		s.url = given
		return sweepDatabases(ctx, given)
	}
	sweepFolders(ctx)
	own, err := private(ctx)
	if err != nil {
		return err
	}
	s.own, s.url = own, own.URL("postgres")
	return nil
}

// private starts a server in a temporary folder, with fsync=off: only a loss of power could lose what
// was committed, not the death of a process. synchronous_commit stays on, because without it the
// server's own death could.
func private(ctx context.Context, changes ...func(*localpg.Options)) (*localpg.Server, error) {
	dir, err := localpg.TempFolder(dirPattern)
	if err != nil {
		return nil, err
	}
	options := localpg.Options{
		Dir:       dir,
		Temporary: true,
		Settings:  map[string]string{"fsync": "off", "full_page_writes": "off"},
	}
	for _, change := range changes {
		change(&options)
	}
	own, err := localpg.Start(ctx, options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return own, nil
}

// close stops the private server and, unless it holds a failed test's database, removes it.
func (s *server) close(out io.Writer) error {
	if s.own == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	if kept > 0 {
		_, _ = fmt.Fprintf(out, "dbtest: %d database(s) of failed tests kept for a day; this brings their server back:\n%s\n",
			kept, s.own.Command())
		return s.own.Stop(ctx)
	}
	return discard(ctx, s.own)
}

// discard stops a private server and removes its folder.
func discard(ctx context.Context, own *localpg.Server) error {
	if err := own.Stop(ctx); err != nil {
		return err
	}
	return localpg.Remove(ctx, own.Dir())
}

// sweepFolders removes the private servers that stayed behind for longer than keepFor: of failed
// tests, and of runs that were killed together with their guards. It ignores what it cannot remove,
// such as another user's or one in use.
func sweepFolders(ctx context.Context) {
	for _, parent := range localpg.TempFolders() {
		folders, err := filepath.Glob(filepath.Join(parent, dirPattern))
		if err != nil {
			return
		}
		for _, folder := range folders {
			if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > keepFor {
				_ = localpg.Remove(ctx, folder)
			}
		}
	}
}

// skipOrFail skips the test when err means that a server is not installed, except in CI, and fails it
// for any other error.
func skipOrFail(t testing.TB, err, notInstalled error) {
	t.Helper()
	if errors.Is(err, notInstalled) && config.Environ()["CI"] != "true" {
		t.Skipf("dbtest: %v", err)
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// Server starts a server for one test alone, which may kill and restart it; it is removed with the
// test. Like the shared one it runs with fsync=off; changes may set other options.
func Server(t testing.TB, changes ...func(*localpg.Options)) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	own, err := private(ctx, changes...)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
		defer cancel()
		if t.Failed() {
			t.Logf("dbtest: the server of the failed test is kept for a day; this brings it back: %s", own.Command())
			if err := own.Stop(ctx); err != nil {
				t.Logf("dbtest: %v", err)
			}
			return
		}
		if err := discard(ctx, own); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return own
}
