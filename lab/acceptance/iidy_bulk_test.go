package acceptance

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// memoryOf is the memory of a process in MiB: what is resident now and was at most.
func memoryOf(t *testing.T, pid int) (now, most int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc to read a process's memory from")
	}
	read := func(name string) int {
		match := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
		if match == nil {
			t.Fatalf("%s is not in %s", name, status)
		}
		kib, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kib >> 10
	}
	return read("VmRSS"), read("VmHWM")
}

// A million lines in one request, added, incremented and deleted: exact, and the
// replica does not hold them.
func TestIidyMillionLines(t *testing.T) {
	t.Parallel()
	const n, mostMiB = 1_000_000, 64
	set := iidy(t, 1, dbtest.Empty(t), nil)
	l, pid := newLists(t, addrs(set)[0]), set.Replicas()[0].Status().PID
	l.want("POST", "/batch/lists/warm", upload(20_000, false), 20_000)
	before, _ := memoryOf(t, pid)
	for _, step := range []struct{ method, query string }{{"POST", ""}, {"POST", "?action=increment"}, {"DELETE", ""}} {
		begin := time.Now()
		l.want(step.method, "/batch/lists/downloads"+step.query, upload(n, step.method == "DELETE"), n)
		now, most := memoryOf(t, pid)
		t.Logf("%s %s took %s; memory %d MiB before, %d now, %d at most",
			step.method, step.query, time.Since(begin).Round(time.Millisecond), before, now, most)
		if most-before >= mostMiB {
			t.Errorf("the replica grew by %d MiB, at most %d are allowed", most-before, mostMiB)
		}
	}
	if r := l.do("HEAD", "/lists/downloads", nil); r.status != 404 {
		t.Errorf("something is left: %d", r.status)
	}
}

// A connection that is cut in the middle of a long batch leaves nothing behind.
func TestIidyCutUpload(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	addr := addrs(iidy(t, 1, dsn, nil))[0]
	l := newLists(t, addr)
	l.want("POST", "/batch/lists/downloads", upload(100, false), 100)
	for _, request := range []string{
		"POST /iidy/v1/batch/lists/downloads", "POST /iidy/v1/batch/lists/downloads?action=increment",
		"DELETE /iidy/v1/batch/lists/downloads",
	} {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		declared := 200_000 * len(appendLine(nil, 0, 1, false))
		if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", request, declared); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(c, upload(150_000, false)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := dial(t, dsn)
	eventually(t, "no transaction is open", 30*time.Second, func() bool {
		var open int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`).Scan(&open); err != nil {
			t.Fatal(err)
		}
		return open == 0
	})
	var items, attempts int
	err := db.QueryRowContext(t.Context(), `SELECT count(*), coalesce(sum(attempts), 0) FROM iidy.lists`).Scan(&items, &attempts)
	if err != nil {
		t.Fatal(err)
	}
	if items != 100 || attempts != 0 {
		t.Errorf("%d items with %d attempts, want 100 with none", items, attempts)
	}
}

// oppositeLines is how long the batches of TestIidyOppositeOrder are. `make nightly` sends a million lines.
//
//nolint:gochecknoglobals // a flag of the test
var oppositeLines = flag.Int("opposite", 100_000, "lines of the two batches in opposite order")

// Two long batches over the same items from both ends, at two replicas: both
// succeed, whichever waits for the other.
func TestIidyOppositeOrder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	hurryDeadlocks(t, dsn)
	set := iidy(t, 2, dsn, nil)
	n := *oppositeLines
	for _, step := range []struct {
		method, query string
		total         int
	}{{"POST", "", n}, {"POST", "?action=increment", 2 * n}, {"DELETE", "", n}} {
		counts := make(chan int64, 2)
		for i, addr := range addrs(set) {
			l := newLists(t, addr)
			go func() {
				k, err := l.count(step.method, "/batch/lists/downloads"+step.query, upload(n, i == 1))
				if err != nil {
					t.Error(err)
				}
				counts <- k
			}()
		}
		if got := <-counts + <-counts; got != int64(step.total) {
			t.Errorf("%s %s: %d, want %d", step.method, step.query, got, step.total)
		}
	}
	if got := deadlocks(t, dsn); got != 0 {
		t.Errorf("%d deadlocks", got)
	}
}
