package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

var _ = register(targets.Iidy, newIidy)

const (
	// aRequest is how many items a batch or a page has.
	aRequest = 1000
	// batched and singly are how many items the batches and the single calls work on, as multiples of Options.rows.
	batched = 30
	singly  = 3
	// batchCallers is how many callers send batches.
	batchCallers = 8
	// faster is the least multiple of the older IIDY's throughput.
	faster = 1.2
)

// newIidy measures items a second, not requests, each kind of request of the older IIDY before the same of ours. Every
// request is sent once; each round has new lists.
func newIidy(r *runner) suite {
	ours, older := &lists{runner: r}, &lists{runner: r}
	swept := []series{r.loaded(r.Service, ours.increaseAny)}
	if r.Peer != "" {
		swept = append(swept, r.loaded("older IIDY", older.increaseAny))
	}

	prepare := func(ctx context.Context) error {
		if err := r.updateTable(ctx); err != nil {
			return err
		}
		ours.url = r.url
		if r.Peer != "" {
			peer, databaseURL, err := r.startPeer(ctx)
			if err != nil {
				return err
			}
			older.peer, older.url = &peer, databaseURL
			if err := older.makeSweptList(ctx); err != nil {
				return err
			}
		}
		return ours.makeSweptList(ctx)
	}

	s := suite{replicas: 1, connections: batchCallers, prepare: prepare, scenarios: []Scenario{
		{Name: bareUniform, Anchor: true, Title: "bare pgbench, single-row updates", run: r.bare(updateScript(r.rows()))},
	}}
	for _, g := range groups(r.rows()) {
		for _, one := range g.calls {
			name := one.name + "-" + g.suffix
			row := Scenario{
				Name: name, Title: one.title + g.title, Baseline: bareUniform, needs: g.calls[0].name + "-" + g.suffix,
				run: r.driving(func() drive { return ours.drive(g, one) }),
			}
			if r.Peer != "" {
				s.scenarios = append(s.scenarios, Scenario{
					Name: "peer-" + name, Anchor: true, Title: "older IIDY: " + row.Title, Baseline: bareUniform,
					needs: "peer-" + row.needs, run: r.driving(func() drive { return older.drive(g, one) }),
				})
				row.Baseline, row.Bars = "peer-"+name, Figures{perSecond: faster}
			}
			s.scenarios = append(s.scenarios, row)
		}
	}

	s.scenarios = append(s.scenarios, r.sweep(updateScript(r.rows()), swept...)...)
	return s
}

// group holds calls that work on the items of one list, one after the other. The first makes them.
type group struct {
	suffix, title   string
	callers         int
	requests, items int // how many, and of one request
	calls           []call
}

// call is one kind of request.
type call struct {
	name, title string
	// request returns the i-th request.
	request func(list string, i int) []byte
	// state is the column that grows by the items; empty for reads.
	state string
}

func groups(rows int) []group {
	const added, gone, tried = "count(*)", "-count(*)", "count(*) FILTER (WHERE attempts = 1)"
	pages := rows * batched / aRequest
	all := []group{}
	for _, callers := range []int{8, 64} {
		all = append(all, group{
			suffix: strconv.Itoa(callers), title: fmt.Sprintf(", %d callers", callers), callers: callers,
			requests: rows * singly, items: 1,
			calls: []call{
				{"add", "single adds", single(http.MethodPost, ""), added},
				{"get", "single gets", single(http.MethodGet, ""), ""},
				{"increment", "single increments", single(http.MethodPost, "increment/"), tried},
				{"delete", "single deletes", single(http.MethodDelete, ""), gone},
			},
		})
	}

	return append(all, group{
		suffix: "batch", title: ", 1,000 a request, 8 callers", callers: batchCallers, requests: pages, items: aRequest,
		calls: []call{
			{"add", "items added", batch(http.MethodPost, ""), added},
			{"page", "items paged", page, ""},
			{"first-page", "items of the first page", func(list string, _ int) []byte { return page(list, 0) }, ""},
			{"last-page", "items of the last page", func(list string, _ int) []byte { return page(list, pages-1) }, ""},
			{"increment", "items incremented", batch(http.MethodPost, "increment/"), tried},
			{"delete", "items deleted", batch(http.MethodDelete, ""), gone},
		},
	})
}

// lists holds the lists of one server, ours or the older one.
type lists struct {
	*runner

	url   string        // of the server's database
	peer  *local.Status // nil for our replicas
	round int
	list  string
}

// drive sends every request of a call once.
func (l *lists) drive(g group, c call) drive {
	if c.name == g.calls[0].name {
		l.round++
		l.list = fmt.Sprintf("bench-%d", l.round)
	}
	requests := make([][]byte, g.requests)
	for i := range requests {
		requests[i] = c.request(l.list, i)
	}
	d := drive{
		Config:   load.Config{Next: load.Each(requests), Connections: g.callers},
		replicas: 1, peer: l.peer, items: int64(g.items), once: true,
	}
	if c.state != "" {
		d.state = number(l.url, `SELECT `+c.state+` FROM iidy.lists WHERE list = '`+l.list+`'`)
	}
	return d
}

// sweptList has as many items as the table of pgbench has rows.
const sweptList = "sweep"

func (l *lists) makeSweptList(ctx context.Context) error {
	return local.Send(ctx, l.url, fmt.Sprintf(`INSERT INTO iidy.lists (list, item)
		SELECT '%s', 'single/files/' || lpad(n::text, 7, '0') || '.tar.gz' FROM generate_series(0, %d) AS n`,
		sweptList, l.rows()-1), `VACUUM (ANALYZE) iidy.lists`)
}

// increaseAny draws from increments of single items.
func (l *lists) increaseAny() drive {
	requests := make([][]byte, l.rows())
	for i := range requests {
		requests[i] = single(http.MethodPost, "increment/")(sweptList, i)
	}
	return drive{
		Config: load.Config{Next: load.Draw(requests)}, replicas: 1, peer: l.peer,
		state: number(l.url, `SELECT sum(attempts)::bigint FROM iidy.lists WHERE list = '`+sweptList+`'`),
	}
}

// batchItem looks like the file of a download.
func batchItem(i int) string { return fmt.Sprintf("mirror/files/%07d.tar.gz", i) }

// batch returns a function that makes the i-th request of aRequest items. The action stands before the path, as the
// older IIDY has it too.
func batch(method, action string) func(list string, i int) []byte {
	return func(list string, i int) []byte {
		var body strings.Builder
		for item := range aRequest {
			body.WriteString(batchItem(i*aRequest+item) + "\n")
		}
		path := "/iidy/v1/" + action + "batch/lists/" + list
		return request(method, path, "Content-Type: text/plain\r\n", body.String())
	}
}

// page returns a request for the i-th page.
func page(list string, i int) []byte {
	after := ""
	if i > 0 {
		after = url.QueryEscape(batchItem(i*aRequest - 1))
	}
	path := fmt.Sprintf("/iidy/v1/batch/lists/%s?count=%d&after_id=%s", list, aRequest, after)
	return request(http.MethodGet, path, "", "")
}

// single returns a function that makes the i-th request of one item.
func single(method, action string) func(list string, i int) []byte {
	return func(list string, i int) []byte {
		item := url.PathEscape(fmt.Sprintf("single/files/%07d.tar.gz", i))
		return request(method, "/iidy/v1/"+action+"lists/"+list+"/"+item, "", "")
	}
}

const (
	// peerDatabase belongs to the older IIDY, on the same server.
	peerDatabase = "iidy_peer"
	// peerPool is how many connections its one process has.
	peerPool = "16"
)

// startPeer starts the older IIDY (github.com/manniwood/iidy) on its own database. Only its port can be set: it listens
// on all interfaces.
func (r *runner) startPeer(ctx context.Context) (peer local.Status, databaseURL string, err error) {
	databaseURL = r.postgres.URL(peerDatabase) // with parameters
	if err := local.Database(ctx, r.postgres.URL("postgres"), peerDatabase); err != nil {
		return peer, "", err
	}
	server, stop, err := listen(ctx, "the older IIDY", func(port int, _ string, _ *guard.User) guard.Spec {
		return guard.Spec{Path: r.Peer, Env: []string{
			"IIDY_PORT=" + strconv.Itoa(port), "IIDY_PG_MIGRATION_URL=" + databaseURL,
			"IIDY_PG_POOL_URL=" + databaseURL + "&pool_max_conns=" + peerPool,
		}}
	})
	if err != nil {
		return peer, "", err
	}
	r.onStop(func(context.Context) error { return stop() })
	return local.Status{Name: "the older IIDY", PID: server.PID(), API: server.Address()}, databaseURL, nil
}
