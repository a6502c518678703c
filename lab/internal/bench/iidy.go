package bench

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/services"
)

var _ = register(services.Iidy, newIidy)

const (
	// aRequest is how many items a batch or a page has.
	aRequest = 1000
	// batched and singly are how many items the batches and the single calls work on, as multiples of Options.rows.
	batched = 30
	singly  = 3
)

// iidyPGBench is the figure of bare pgbench, in single-row updates a second, beside which an implementation on COPY and
// pgx reached the bars of the suite on 8 connections.
const iidyPGBench = 18_200

// lists works on a list of its own in each round: adds, pages, increments and deletes items in batches, then others one
// at a time.
type lists struct {
	pages int // and batches
	round int
	list  string
}

// newIidy measures items a second, not requests. Every request is sent once.
func newIidy(r *runner) suite {
	l := &lists{pages: r.rows() * batched / aRequest}
	s := suite{replicas: 1, connections: 8, prepare: r.updateTable, scenarios: []Scenario{
		{Name: bareUniform, Title: "bare pgbench, single-row updates", run: r.bare(updateScript(r.rows()))},
	}}
	const added, gone, tried = "count(*)", "-count(*)", "count(*) FILTER (WHERE attempts = 1)"
	const increment = "?action=increment"
	for _, one := range []struct {
		name, title string
		least       float64 // items a second, beside iidyPGBench; 0 for one page over and over, which has no bar
		items       int     // of a request
		request     func(i int) []byte
		state       string // the column that grows by the items; empty for reads
	}{
		{"add", "items added, 1,000 a request", 242_000, aRequest, l.batch(http.MethodPost, ""), added},
		{"page", "items paged, 1,000 a request", 361_000, aRequest, l.page, ""},
		{"first-page", "items paged, the first page alone", 0, aRequest, func(int) []byte { return l.page(0) }, ""},
		{"last-page", "items paged, the last page alone", 0, aRequest, func(int) []byte { return l.page(l.pages - 1) }, ""},
		{"increment", "items incremented, 1,000 a request", 164_000, aRequest, l.batch(http.MethodPost, increment), tried},
		{"delete", "items deleted, 1,000 a request", 305_000, aRequest, l.batch(http.MethodDelete, ""), gone},
		{"add-one", "single adds", 5_200, 1, l.single(http.MethodPost, ""), added},
		{"get-one", "single gets", 15_000, 1, l.single(http.MethodGet, ""), ""},
		{"increment-one", "single increments", 6_300, 1, l.single(http.MethodPost, increment), tried},
		{"delete-one", "single deletes", 6_800, 1, l.single(http.MethodDelete, ""), gone},
	} {
		needs := "add"
		if one.items == 1 {
			needs = "add-one"
		}
		row := Scenario{Name: one.name, Title: one.title, Baseline: bareUniform, needs: needs, run: r.driving(func() drive {
			if one.name == "add" || l.list == "" {
				l.round++
				l.list = fmt.Sprintf("bench-%d", l.round)
			}
			requests := make([][]byte, l.pages)
			if one.items == 1 {
				requests = make([][]byte, r.rows()*singly)
			}
			for i := range requests {
				requests[i] = one.request(i)
			}
			d := drive{Config: load.Config{Next: load.Each(requests)}, replicas: 1, items: int64(one.items), once: true}
			if one.state != "" {
				d.state = number(r.url, `SELECT `+one.state+` FROM iidy.lists WHERE list = '`+l.list+`'`)
			}
			return d
		})}
		if one.least > 0 {
			row.Bars = Figures{perSecond: one.least / iidyPGBench}
		}
		s.scenarios = append(s.scenarios, row)
	}
	return s
}

// batchItem looks like the file of a download.
func batchItem(i int) string { return fmt.Sprintf("mirror/files/%07d.tar.gz", i) }

// batch returns a function that makes the i-th request of aRequest items.
func (l *lists) batch(method, query string) func(i int) []byte {
	return func(i int) []byte {
		var body strings.Builder
		for item := range aRequest {
			body.WriteString(batchItem(i*aRequest+item) + "\n")
		}
		path := "/iidy/v1/batch/lists/" + l.list + query
		return request(method, path, "Content-Type: text/plain\r\n", body.String())
	}
}

// page returns a request for the i-th page.
func (l *lists) page(i int) []byte {
	after := ""
	if i > 0 {
		after = url.QueryEscape(batchItem(i*aRequest - 1))
	}
	path := fmt.Sprintf("/iidy/v1/batch/lists/%s?count=%d&after_id=%s", l.list, aRequest, after)
	return request(http.MethodGet, path, "", "")
}

// single returns a function that makes the i-th request of one item, which sorts behind those of the batches.
func (l *lists) single(method, query string) func(i int) []byte {
	return func(i int) []byte {
		item := url.PathEscape(fmt.Sprintf("single/files/%07d.tar.gz", i))
		return request(method, "/iidy/v1/lists/"+l.list+"/"+item+query, "", "")
	}
}
