package app_test

import (
	"fmt"
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

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// files serves files, some of which fail: the first time, or always.
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

// releaseFailed gives back, until ended, what a worker's claim still holds because it failed: as the end of its lease would, and
// each once. It waits for the file that is gone to be abandoned, which the same claim may hold.
func releaseFailed(t *testing.T, r *replica, db *sqlx.DB, ended <-chan struct{}) {
	t.Helper()
	released := map[string]bool{}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ended:
			tick.Stop()
			return
		case <-tick.C:
		}
		var failed []struct{ Item, Claim string }
		if err := db.SelectContext(t.Context(), &failed, `SELECT item, claim FROM iidy.lists WHERE attempts = 1 AND claim IS NOT NULL
			AND NOT EXISTS (SELECT FROM iidy.lists WHERE item = 'gone.txt')`); err != nil {
			t.Error(err)
			return
		}
		claims := map[string]bool{}
		for _, f := range failed {
			if !released[f.Item] {
				released[f.Item], claims[f.Claim] = true, true
			}
		}
		for claim := range claims {
			if a := apptest.Send(t, "POST", r.API+batch+"?action=release&claim="+claim, "", nil); a.Status != 200 {
				t.Errorf("release: %d %s", a.Status, a.Body)
			}
		}
	}
}

// The scripts in examples/ download what can be, each file once, retry what fails
// and abandon it after five attempts.
func TestExamples(t *testing.T) {
	t.Parallel()
	for script, tc := range map[string]struct {
		environ []string
		before  int // how often the file that is gone has failed already
	}{
		"download.sh": {[]string{"PAUSE=0"}, 0},
		// The lease of what has failed ends when the test says so, and no other does: seven files take as long as they take.
		"two-workers.sh": {[]string{"COUNT=7"}, 4},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			// The defaults: people run the scripts with these, and a busy machine needs them.
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
			command := exec.CommandContext(t.Context(), path, "downloads", server.URL, "./"+filepath.Base(to)) // relative, as people write it
			command.Dir = filepath.Dir(to)
			command.Env = append(append(tc.environ, "IIDY="+r.API, "JOBS=4"), "PATH="+config.Environ()["PATH"])
			command.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
			db, ended := apptest.Open(t, dsn), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { releaseFailed(t, r, db, ended) })
			out, err := command.CombinedOutput()
			close(ended)
			wg.Wait()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got []string
			err = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					name, _ := filepath.Rel(to, path)
					got = append(got, name)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
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
				t.Errorf("something is left of the list: %d", a.Status)
			}
		})
	}
}
