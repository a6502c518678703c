package app_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// files serves files, some of which fail the first time or always.
type files struct {
	mu     sync.Mutex
	served map[string]int // by path: how often it was answered with the file
	failed map[string]int
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	if strings.Contains(name, "gone") || strings.Contains(name, "flaky") && f.failed[name] == 0 {
		f.failed[name]++
		http.Error(w, "not today", http.StatusServiceUnavailable)
		return
	}
	f.served[name]++
	_, _ = w.Write([]byte("the file " + name))
}

// endLeases ends the lease of each item that has failed once, as time would, until the channel is closed.
func endLeases(t *testing.T, db *sqlx.DB, ended <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for seen := []string{}; ; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		var failed []string
		if err := db.SelectContext(t.Context(), &failed, `UPDATE iidy.lists SET lease_until = clock_timestamp()
			WHERE attempts = 1 AND claim IS NOT NULL AND item <> ALL ($1) RETURNING item`, pq.Array(seen)); err != nil {
			t.Error(err)
			return
		}
		seen = append(seen, failed...)
	}
}

// The scripts in examples/ download each file once, retry what fails, and abandon a file after five attempts.
func TestExamples(t *testing.T) {
	t.Parallel()
	for script, tc := range map[string]struct {
		environ []string
		before  int // how often the file that is gone has failed already
	}{
		"download.sh": {[]string{"PAUSE=0"}, 0},
		// The leases of files that failed are ended by the test, the others last: no machine is too slow.
		"two-workers.sh": {[]string{"COUNT=7"}, 4},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			// The default timeouts, with which the scripts are used.
			r := startOn(t, dsn, map[string]string{
				"DB_LOCK_TIMEOUT": "5s", "DB_STATEMENT_TIMEOUT": "8s", "REQUEST_TIMEOUT": "10s", "SHUTDOWN_TIMEOUT": "20s",
			})
			f := &files{served: map[string]int{}, failed: map[string]int{}}
			server := httptest.NewServer(f)
			t.Cleanup(server.Close)
			var names []string
			for i := range 40 {
				names = append(names, fmt.Sprintf("dir%d/file-%02d.txt", i%3, i))
			}
			names = append(names, "flaky-1.txt", "dir0/flaky-2.txt", "gone.txt")
			r.want(t, "POST", items+"/gone.txt", "", 201, "ADDED 1")
			for range tc.before {
				r.want(t, "POST", items+"/gone.txt?action=increment", "", 200, "INCREMENTED 1")
			}
			to := t.TempDir()
			path, err := filepath.Abs("../../examples/" + script)
			if err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), path, "downloads", server.URL, "./"+filepath.Base(to))
			command.Dir = filepath.Dir(to)
			command.Env = append(append(tc.environ, "IIDY="+r.API, "JOBS=4"), "PATH="+config.Environ()["PATH"])
			command.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
			db, ended := dbtest.Dial(t, dsn), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { endLeases(t, db, ended) })
			out, err := command.CombinedOutput()
			close(ended)
			wg.Wait()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got []string
			for _, pattern := range []string{"*.txt", "*/*.txt"} {
				found, err := fs.Glob(os.DirFS(to), pattern)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, found...)
			}
			want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "gone.txt" })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("downloaded %q, want %q\n%s", got, want, out)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			for name, n := range f.served {
				if n != 1 {
					t.Errorf("%s was downloaded %d times", name, n)
				}
			}
			if f.failed["gone.txt"] != 5-tc.before || f.failed["flaky-1.txt"] != 1 {
				t.Errorf("attempts that failed: %v\n%s", f.failed, out)
			}
			if a := apptest.Send(t, "HEAD", r.API+items, "", nil); a.Status != 404 {
				t.Errorf("items are left in the list: %d", a.Status)
			}
		})
	}
}
