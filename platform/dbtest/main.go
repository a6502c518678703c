// Package dbtest gives tests a real PostgreSQL: a database of its own for every test, cloned in some 30 ms from a template that holds
// the migrated schema, on one server per run. For tests only; depguard keeps it out of everything else.
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
//
//	func TestIncrease(t *testing.T) {
//		t.Parallel()
//		dsn := dbtest.Postgres(t, postgres.Migrations())
//		...
//	}
//
// The server is the one that ROWLOCK_TEST_DATABASE_URL names (a role that may create databases; `make test` starts one for all
// packages), else a private one that starts when the first test asks, and is gone when the process is, even after a kill -9.
//
// For a service that knows MariaDB too, [MariaDB] does the same on a private MariaDB server, with the migrations applied anew.
//
// A failed test keeps its PostgreSQL database and prints its DSN. Kept databases, and those of killed runs, go a day later.
package dbtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
)

// URLVariable names the environment variable with the address of a server to test on.
const URLVariable = "ROWLOCK_TEST_DATABASE_URL"

const (
	// patience bounds what a test waits for the server: its start, a template that another process is building.
	patience = 2 * time.Minute
	// keepFor is how long the databases of failed and of killed tests stay.
	keepFor = 24 * time.Hour
	// keepServers bounds the folders of private servers (some 40 MB each) that stay.
	keepServers = 5
	// dirPattern names the folders of private servers.
	dirPattern = "rowlock-test-*"
)

// process is the server of this test process. The tests of a process share it; nothing else is shared.
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

// Main runs the tests and stops the private server afterwards, if there is one. It goes into TestMain. To look for leaked goroutines
// as well, hand goleak.VerifyTestMain something whose Run calls Main: then the server is gone before goleak looks.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	if err := errors.Join(process.close(os.Stderr), maria.close()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dbtest:", err)
		return max(code, 1)
	}
	return code
}

// start makes sure of a server, once per process, and returns the address of a database on it.
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// private starts a server in a temporary folder. It writes nothing through to the disk, which only a loss of power could tell from a
// server that does: killed processes, the server's own included, lose nothing that was committed. synchronous_commit stays on, since
// without it they would.
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

// close ends the private server and, unless a failed test's database is on it, removes it.
func (s *server) close(out io.Writer) error {
	if s.own == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// sweepFolders removes the private servers that stayed behind: of failed tests, and of runs that were killed together with their
// guards. The last few of a day stay. It is a courtesy to the machine: what cannot be removed (another user's, one in use) is left.
func sweepFolders(ctx context.Context) {
	var folders []string
	for _, parent := range localpg.TempFolders() {
		found, err := filepath.Glob(filepath.Join(parent, dirPattern))
		if err != nil {
			return
		}
		folders = append(folders, found...)
	}
	ages := make(map[string]time.Duration, len(folders))
	for _, folder := range folders {
		if info, err := os.Stat(folder); err == nil {
			ages[folder] = time.Since(info.ModTime())
		}
	}
	slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(ages[a], ages[b]) })
	for i, folder := range folders {
		// A folder that another process is just making is young.
		if ages[folder] > keepFor || (i >= keepServers && ages[folder] > time.Minute) {
			_ = localpg.Remove(ctx, folder)
		}
	}
}

// Server starts a server for one test alone, to be killed and restarted at will; it is stopped and removed with the test.
// Like the shared one it runs with fsync=off; changes may change that and everything else about it.
func Server(t testing.TB, changes ...func(*localpg.Options)) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own, err := private(ctx, changes...)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
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
