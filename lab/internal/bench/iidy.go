package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
)

const (
	// aRequest is how many items a batch or a page has.
	aRequest = 1000
	// batched and singly are how many items the batches and the single calls work on, as multiples of Options.Items.
	batched = 30
	singly  = 3
)

// iidyPGBench is the figure of bare pgbench, in single-row updates a second, beside which an implementation on COPY and
// pgx reached the bars of the suite on 8 connections.
const iidyPGBench = 18_200

// lists works on a list of its own in each round: adds, pages, increments and deletes items in batches, then others one
// at a time.
type lists struct {
	items int // Options.Items
	list  string
}

// newIidy measures items a second, not requests.
func newIidy(o Options) suite {
	l := &lists{items: o.Items}
	s := suite{
		prepare: func(ctx context.Context, r *runner) error { return r.updateTable(ctx) },
		scenarios: []scenario{{
			name: bareUniform, title: "bare pgbench, single-row updates", pgbench: updateScript(o.Items),
		}},
	}
	const added, gone, tried = "count(*)", "-count(*)", "count(*) FILTER (WHERE attempts = 1)"
	const increment = "?action=increment"
	for _, one := range []struct {
		name, title string
		least       float64 // items a second, beside iidyPGBench; 0 for one page over and over, which has no bar
		items       int64   // of a request
		requests    func() [][]byte
		state       string // the column that grows by the items; empty for reads
	}{
		{"add", "items added, 1,000 a request", 242_000, aRequest, l.batches(http.MethodPost, ""), added},
		{"page", "items paged, 1,000 a request", 361_000, aRequest, l.pages, ""},
		{"first-page", "items paged, the first page alone", 0, aRequest, l.firstPage, ""},
		{"last-page", "items paged, the last page alone", 0, aRequest, l.lastPage, ""},
		{"increment", "items incremented, 1,000 a request", 164_000, aRequest, l.batches(http.MethodPost, increment), tried},
		{"delete", "items deleted, 1,000 a request", 305_000, aRequest, l.batches(http.MethodDelete, ""), gone},
		{"add-one", "single adds", 5_200, 1, l.singles(http.MethodPost, ""), added},
		{"get-one", "single gets", 15_000, 1, l.singles(http.MethodGet, ""), ""},
		{"increment-one", "single increments", 6_300, 1, l.singles(http.MethodPost, increment), tried},
		{"delete-one", "single deletes", 6_800, 1, l.singles(http.MethodDelete, ""), gone},
	} {
		s.scenarios = append(s.scenarios, scenario{
			name: one.name, title: one.title, baseline: bareUniform, replicas: o.Replicas,
			drive: func(r *runner) drive {
				if one.name == "add" || l.list == "" {
					l.list = strings.TrimSuffix(benchPrefix(), "-")
				}
				d := drive{Config: load.Config{Requests: one.requests()}, items: one.items, once: true}
				if one.least == 0 {
					d.once, d.Duration = false, min(o.Duration, 3*time.Second)
				}
				if one.state != "" {
					d.state = number(r.system.url, `SELECT `+one.state+` FROM iidy.lists WHERE list = '`+l.list+`'`)
				}
				return d
			},
		})
		if one.least > 0 {
			s.bars = append(s.bars, bar{
				name: one.title, figure: perSecond, scenario: one.name, over: bareUniform,
				bound: atLeast, limit: one.least / iidyPGBench,
			})
		}
	}
	return s
}

// batchItem looks like the file of a download.
func batchItem(i int) string { return fmt.Sprintf("mirror/files/%07d.tar.gz", i) }

// batches returns a function that makes requests of aRequest items each.
func (l *lists) batches(method, query string) func() [][]byte {
	return func() (requests [][]byte) {
		for first := 0; first < l.items*batched; first += aRequest {
			var body strings.Builder
			for i := range aRequest {
				body.WriteString(batchItem(first+i) + "\n")
			}
			path := "/iidy/v1/batch/lists/" + l.list + query
			requests = append(requests, request(method, path, "Content-Type: text/plain\r\n", body.String()))
		}
		return requests
	}
}

func (l *lists) pages() (requests [][]byte) {
	after := ""
	for first := 0; first < l.items*batched; first += aRequest {
		path := fmt.Sprintf("/iidy/v1/batch/lists/%s?count=%d&after_id=%s", l.list, aRequest, url.QueryEscape(after))
		requests = append(requests, request(http.MethodGet, path, "", ""))
		after = batchItem(first + aRequest - 1)
	}
	return requests
}

func (l *lists) firstPage() [][]byte { return l.pages()[:1] }

func (l *lists) lastPage() [][]byte {
	pages := l.pages()
	return pages[len(pages)-1:]
}

// singles returns a function that makes requests of one item each, which sorts behind those of the batches.
func (l *lists) singles(method, query string) func() [][]byte {
	return func() [][]byte {
		requests := make([][]byte, l.items*singly)
		for i := range requests {
			item := url.PathEscape(fmt.Sprintf("single/files/%07d.tar.gz", i))
			requests[i] = request(method, "/iidy/v1/lists/"+l.list+"/"+item+query, "", "")
		}
		return requests
	}
}
