package acceptance

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// batch sends items as text to a replica and reads how many were changed: "ADDED 8".
func batch(t *testing.T, url, method, query string, body io.Reader) int64 {
	t.Helper()
	a, err := send(t, method, url+"/iidy/v1/batch/lists/downloads"+query, body)
	_, number, _ := strings.Cut(strings.TrimSuffix(a.body, "\n"), " ")
	n, parseErr := strconv.ParseInt(number, 10, 64)
	if err != nil || parseErr != nil || a.status >= http.StatusMultipleChoices {
		t.Errorf("%s %s: %d %.200q, %v", method, query, a.status, a.body, err)
	}
	return n
}

// TestIidyMillionLines adds, increments and deletes a million lines in one
// request each: the counts are exact, and the replica does not hold them.
func TestIidyMillionLines(t *testing.T) {
	t.Parallel()
	const n, mostMiB = 1_000_000, 64
	set := start(t, services.Iidy, 1, dbtest.Empty(t), nil)
	url, pid := urls(set)[0], set.Replicas()[0].Status().PID
	batch(t, url, http.MethodPost, "", upload(20_000, false))
	batch(t, url, http.MethodDelete, "", upload(20_000, false))
	before, _ := memoryOf(t, pid)
	for _, step := range []struct{ method, query string }{{"POST", ""}, {"POST", "?action=increment"}, {"DELETE", ""}} {
		begin := time.Now()
		if got := batch(t, url, step.method, step.query, upload(n, step.method == http.MethodDelete)); got != n {
			t.Errorf("%s %s: %d, want %d", step.method, step.query, got, n)
		}
		now, most := memoryOf(t, pid)
		t.Logf("%s %s took %s; memory %d MiB before, %d now, %d at most",
			step.method, step.query, time.Since(begin).Round(time.Millisecond), before, now, most)
		if most-before >= mostMiB {
			t.Errorf("the replica grew by %d MiB, at most %d are allowed", most-before, mostMiB)
		}
	}
	a, err := send(t, http.MethodHead, url+"/iidy/v1/lists/downloads", http.NoBody)
	if err != nil || a.status != http.StatusNotFound {
		t.Errorf("items are left: %d, %v", a.status, err)
	}
}

// memoryOf returns the memory of a process in MiB: what is resident now, and was at most.
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

// TestIidyCutUpload closes the connection in the middle of a long batch, which
// leaves nothing behind.
func TestIidyCutUpload(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	url := urls(start(t, services.Iidy, 1, dsn, nil))[0]
	batch(t, url, http.MethodPost, "", upload(100, false))
	for _, request := range []string{
		"POST /iidy/v1/batch/lists/downloads", "POST /iidy/v1/batch/lists/downloads?action=increment",
		"DELETE /iidy/v1/batch/lists/downloads",
	} {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
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
	within(t, 30*time.Second, "no transaction is open", func() bool {
		var open int
		scan(t, dsn, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`, &open)
		return open == 0
	})
	var items, attempts int
	scan(t, dsn, `SELECT count(*), coalesce(sum(attempts), 0) FROM iidy.lists`, &items, &attempts)
	if items != 100 || attempts != 0 {
		t.Errorf("%d items with %d attempts, want 100 with none", items, attempts)
	}
}

// oppositeLines is how long the batches of TestIidyOppositeOrder are. `make nightly` sends a million lines.
//
//nolint:gochecknoglobals // a flag of the test
var oppositeLines = flag.Int("opposite", 100_000, "lines of the two batches in opposite order")

// TestIidyOppositeOrder sends two long batches over the same items from both ends
// to two replicas: both succeed, whichever waits for the other.
func TestIidyOppositeOrder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	lookForDeadlocks(t, dsn)
	set := start(t, services.Iidy, 2, dsn, nil)
	n := *oppositeLines
	for _, step := range []struct {
		method, query string
		total         int
	}{{"POST", "", n}, {"POST", "?action=increment", 2 * n}, {"DELETE", "", n}} {
		counts := make(chan int64, 2)
		for i, url := range urls(set) {
			go func() { counts <- batch(t, url, step.method, step.query, upload(n, i == 1)) }()
		}
		if got := <-counts + <-counts; got != int64(step.total) {
			t.Errorf("%s %s: %d, want %d", step.method, step.query, got, step.total)
		}
	}
	wantNoDeadlock(t, set, dsn)
}

// TestIidyPagesOfAMillion pages through a million items while others are added
// and deleted all the time: what is there throughout comes once, in order.
func TestIidyPagesOfAMillion(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	c, err := iidy.New(urls(start(t, services.Iidy, 1, dsn, nil))[0], options())
	if err != nil {
		t.Fatal(err)
	}
	list := c.List("downloads")
	const n, aPage = 1_000_000, 1000
	if _, err := dial(t, dsn).ExecContext(t.Context(), //nolint:forbidigo // it may be made twice
		`INSERT INTO iidy.lists (list, item)
		SELECT 'downloads', 'files/' || lpad(i::text, 7, '0') FROM generate_series(0, $1::int - 1) AS i
		    ON CONFLICT DO NOTHING`, n); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { comeAndGo(t, list, n, over) })
	seen, after := 0, ""
	var want []byte
	for {
		page, err := list.Page(t.Context(), after, aPage)
		if err != nil {
			t.Fatalf("after %q: %v", after, err)
		}
		if len(page) == 0 {
			break
		}
		for _, entry := range page {
			if entry.Item <= after {
				t.Fatalf("%q comes after %q", entry.Item, after)
			}
			after = entry.Item
			if strings.Contains(entry.Item, "-") {
				continue // one of those that come and go
			}
			if want = appendItem(want[:0], seen); entry.Item != string(want) {
				t.Fatalf("%q comes where %q should", entry.Item, want)
			}
			seen++
		}
	}
	close(over)
	others.Wait()
	if seen != n {
		t.Errorf("%d of %d items came", seen, n)
	}
}

// comeAndGo adds and deletes items between those of the million until over is closed.
func comeAndGo(t *testing.T, list *iidy.List, n int, over <-chan struct{}) {
	t.Helper()
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		items := make([]string, 200)
		for k := range items {
			items[k] = fmt.Sprintf("files/%07d-%d", (i/2*7919+k*4999)%n, k)
		}
		change := list.Add
		if i%2 == 1 {
			change = list.Delete
		}
		if changed, err := change(t.Context(), items...); err != nil || changed != int64(len(items)) {
			t.Errorf("%d of %d items were changed, %v", changed, len(items), err)
		}
	}
}

// appendItem appends the name of item i, which has seven digits. With the race
// detector fmt would need half a minute for a million names.
func appendItem(to []byte, i int) []byte {
	const sevenDigits = 10_000_000
	at := len(to) + len("files")
	to = strconv.AppendInt(append(to, "files"...), int64(sevenDigits+i), 10)
	to[at] = '/'
	return to
}

// appendLine appends the line of item i of n, in order or from behind.
func appendLine(to []byte, i, n int, back bool) []byte {
	if back {
		i = n - 1 - i
	}
	return append(appendItem(to, i), ".tar.gz\n"...)
}

// upload streams n items without holding them; its length is not declared.
func upload(n int, back bool) io.Reader {
	r, w := io.Pipe()
	go func() {
		var chunk []byte
		for i := range n {
			chunk = appendLine(chunk, i, n, back)
			if len(chunk) > 60<<10 || i == n-1 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
				chunk = chunk[:0]
			}
		}
		_ = w.Close()
	}()
	return r
}
