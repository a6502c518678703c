package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// A million items, paged through while others are added and deleted all the time:
// what was there throughout comes once, in order.
func TestIidyPagesOfAMillion(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	l := newLists(t, addrs(iidy(t, 1, dsn, nil))[0])
	const n, aPage = 1_000_000, 1000
	if _, err := dial(t, dsn).ExecContext(t.Context(), //nolint:forbidigo // it may be made twice
		`INSERT INTO iidy.lists (list, item)
		SELECT 'downloads', 'files/' || lpad(i::text, 7, '0') FROM generate_series(0, $1::int - 1) AS i
		    ON CONFLICT DO NOTHING`, n); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			var lines strings.Builder
			for k := range 200 {
				fmt.Fprintf(&lines, "files/%07d-%d\n", (i/2*7919+k*4999)%n, k)
			}
			method := []string{http.MethodPost, http.MethodDelete}[i%2]
			l.want(method, "/batch/lists/downloads", strings.NewReader(lines.String()), 200)
		}
	})
	seen, after, last := 0, "", ""
	var want []byte
	var slowest time.Duration
	for {
		begin := time.Now()
		r := l.do("GET", fmt.Sprintf("/batch/lists/downloads?count=%d&after_id=%s", aPage, url.QueryEscape(after)), nil)
		slowest = max(slowest, time.Since(begin))
		if r.status != http.StatusOK {
			t.Fatalf("after %q: %d %s", after, r.status, r.body)
		}
		if r.body == "" {
			break
		}
		for line := range strings.Lines(r.body) {
			item, _, _ := strings.Cut(line, " ")
			if item <= last {
				t.Fatalf("%q comes after %q", item, last)
			}
			last = item
			if strings.Contains(item, "-") {
				continue // one of those that come and go
			}
			if want = appendItem(want[:0], seen); item != string(want) {
				t.Fatalf("%q comes where %q should", item, want)
			}
			seen++
		}
		after = r.header.Get("X-Iidy-Last-Item")
	}
	close(over)
	others.Wait()
	if seen != n {
		t.Errorf("%d of %d items came", seen, n)
	}
	t.Logf("the slowest page took %s", slowest.Round(time.Microsecond))
}
