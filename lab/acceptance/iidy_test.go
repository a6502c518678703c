package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// many lines of itemLength bytes are a request of 50 MiB.
const (
	many       = 100_000
	itemLength = 512
)

// TestIidyLargeBatches adds and deletes more lines in one request each than the replica may hold: the counts are exact.
// In between it pages through them.
func TestIidyLargeBatches(t *testing.T) {
	t.Parallel()
	const mostMiB = 32
	replica := start(t, targets.Iidy, dbtest.Empty(t), nil)
	list := openList(t, replica, "downloads")
	change(t, http.MethodPost, replica, 20_000)
	change(t, http.MethodDelete, replica, 20_000)
	before := mostMemory(t, replica.Status().PID)
	change(t, http.MethodPost, replica, many)
	wantPages(t, list)
	change(t, http.MethodDelete, replica, many)
	if grown := mostMemory(t, replica.Status().PID) - before; grown >= mostMiB {
		t.Errorf("the replica grew by %d MiB, at most %d are allowed", grown, mostMiB)
	}
	if left, err := list.Page(t.Context(), "", 1); err != nil || len(left) > 0 {
		t.Errorf("items are left: %+v, %v", left, err)
	}
}

func openList(t *testing.T, replica *local.Replica, name string) *iidy.List {
	t.Helper()
	api, err := iidy.New(url(replica), options()...)
	if err != nil {
		t.Fatal(err)
	}
	return api.List(name)
}

// change adds or deletes n items in one request, whose body the client module would
// hold in memory, and demands that all of them count.
func change(t *testing.T, method string, replica *local.Replica, n int) {
	t.Helper()
	begin := time.Now()
	address := url(replica) + "/iidy/v1/batch/lists/downloads"
	req, err := http.NewRequestWithContext(t.Context(), method, address, upload(n))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if _, changed, _ := strings.Cut(string(answer), " "); err != nil || changed != fmt.Sprintln(n) { // ADDED 20000
		t.Errorf("%s of %d lines: %s %s, %v", method, n, resp.Status, answer, err)
	}
	t.Logf("%s of %d lines took %s", method, n, time.Since(begin).Round(time.Millisecond))
}

// upload streams n lines without holding them; their length is not declared.
func upload(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		var chunk []byte
		for i := range n {
			chunk = append(appendItem(chunk, i), '\n')
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

// appendItem appends the name of item i.
func appendItem(to []byte, i int) []byte {
	return fmt.Appendf(to, "files/%0*d.tar.gz", itemLength-len("files/.tar.gz"), i)
}

// mostMemory returns how much memory a process had at most, in MiB.
func mostMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc to read a process's memory from")
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("VmHWM is not in %s", status)
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// wantPages reads all items: each comes once, in order.
func wantPages(t *testing.T, list *iidy.List) {
	t.Helper()
	seen := 0
	var want []byte
	for entry, err := range list.Items(t.Context()) {
		if want = appendItem(want[:0], seen); err != nil || entry.Item != string(want) {
			t.Fatalf("%q comes where %q should, %v", entry.Item, want, err)
		}
		seen++
	}
	if seen != many {
		t.Errorf("%d of %d items came", seen, many)
	}
}
