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

// The scripts in examples/ download what can be, each file once, retry what fails
// and abandon it after five attempts.
func TestExamples(t *testing.T) {
	t.Parallel()
	for script, tc := range map[string]struct {
		environ []string
		before  int // how often the file that is gone has failed already
	}{
		"download.sh": {[]string{"PAUSE=0"}, 0},
		// A worker waits for the lease of what has failed: once is enough.
		"two-workers.sh": {[]string{"COUNT=7", "LEASE=4s"}, 4},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
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
			command.Env = append(append(tc.environ, "IIDY="+r.api, "JOBS=4"), "PATH="+config.Environ()["PATH"])
			command.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
			out, err := command.CombinedOutput()
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
			if a := apptest.Send(t, "HEAD", r.api+items, "", nil); a.Status != 404 {
				t.Errorf("something is left of the list: %d", a.Status)
			}
		})
	}
}
