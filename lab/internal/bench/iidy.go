package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

const (
	// aRequest is how many items a batch or a page has.
	aRequest = 1000
	// batched and singly are how many items the batches and the single calls work on, as multiples of Options.Items.
	batched = 30
	singly  = 3
)

// lists works on a list of its own in each round: adds, pages, increments and deletes items in batches, then others one at a time.
type lists struct {
	base   string // the API of one replica
	items  int    // Options.Items
	client *http.Client
	list   string // of this round
}

func newLists(target string, items int) *lists {
	return &lists{base: "http://" + target, items: items, client: &http.Client{Timeout: time.Minute}}
}

func (l *lists) prepare(ctx context.Context, r *runner) (err error) {
	if r.hasPGBench() {
		if r.baseline, err = pgbench.New(ctx, r.system.PGBench, r.system.DatabaseURL, r.options.Items); err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
	}

	return nil
}

func (*lists) runBaseline(ctx context.Context, r *runner, _ scenario) (pgbench.Result, error) {
	return r.baseline.Run(ctx, pgbench.Uniform, r.options.Duration)
}

// forEver is longer than any run.
const forEver = time.Hour

// step is what a scenario sends and what it must leave behind.
type step struct {
	requests [][]byte
	each     int                            // items of a request
	state    func(progress listState) int64 // what must have grown by the number of items; nil for reads
}

// listState is the list's progress as the service tells it.
type listState struct {
	Items    int64            `json:"items"`
	Attempts map[string]int64 `json:"attempts"` // by their number, "5+" the last
}

func (l *lists) run(ctx context.Context, r *runner, s scenario) (Run, error) {
	if s.name == scenarioAdd || l.list == "" {
		l.list = "bench-" + strings.ToLower(rand.Text()[:8])
	}

	work := l.step(s.name)
	if s.name == scenarioFirstPage || s.name == scenarioLastPage {
		return l.page(ctx, r, s, work.requests)
	}

	before, err := l.progress(ctx)
	if err != nil {
		return Run{}, err
	}

	cfg := r.config(s, work.requests)
	cfg.Warmup, cfg.Duration = 0, forEver // the run is over when everything is sent

	result, seen, err := r.drive(ctx, cfg, s, load.Once)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.PerSecond *= float64(work.each)

	if work.state == nil {
		return run, nil
	}

	after, err := l.progress(ctx)
	if err != nil {
		return Run{}, err
	}

	tally := result.Tally
	tally.Acknowledged *= int64(work.each)
	tally.Unknown *= int64(work.each)
	run.Sum = &SumCheck{Tally: tally, Gained: work.state(after) - work.state(before)}

	return run, nil
}

// page asks for one page over and over.
func (*lists) page(ctx context.Context, r *runner, s scenario, requests [][]byte) (Run, error) {
	cfg := r.config(s, requests)
	cfg.Duration = min(cfg.Duration, 3*time.Second)

	result, seen, err := r.drive(ctx, cfg, s, load.Run)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.PerSecond *= aRequest

	return run, nil
}

func (l *lists) step(name string) step {
	items := func(p listState) int64 { return p.Items }
	gone := func(p listState) int64 { return -p.Items }
	tried := func(p listState) int64 { return p.Attempts["1"] }

	switch name {
	case scenarioAdd:
		return step{l.batches(http.MethodPost, ""), aRequest, items}
	case scenarioIncrement:
		return step{l.batches(http.MethodPost, "?action=increment"), aRequest, tried}
	case scenarioDelete:
		return step{l.batches(http.MethodDelete, ""), aRequest, gone}
	case scenarioPage:
		return step{l.pages(), aRequest, nil}
	case scenarioFirstPage:
		return step{l.pages()[:1], aRequest, nil}
	case scenarioLastPage:
		pages := l.pages()

		return step{pages[len(pages)-1:], aRequest, nil}
	case scenarioAddOne:
		return step{l.singles(http.MethodPost, ""), 1, items}
	case scenarioIncrementOne:
		return step{l.singles(http.MethodPost, "?action=increment"), 1, tried}
	case scenarioGetOne:
		return step{l.singles(http.MethodGet, ""), 1, nil}
	default:
		return step{l.singles(http.MethodDelete, ""), 1, gone}
	}
}

// benchItem looks like the file of a download.
func benchItem(i int) string { return fmt.Sprintf("mirror/files/%07d.tar.gz", i) }

// singleItem sorts behind all of the batches.
func singleItem(i int) string { return fmt.Sprintf("single/files/%07d.tar.gz", i) }

func (l *lists) batches(method, query string) [][]byte {
	requests := make([][]byte, 0, l.items*batched/aRequest)

	for first := 0; first < l.items*batched; first += aRequest {
		var body bytes.Buffer
		for i := range aRequest {
			body.WriteString(benchItem(first + i))
			body.WriteByte('\n')
		}

		requests = append(requests, fmt.Appendf(nil, "%s /iidy/v1/batch/lists/%s%s HTTP/1.1\r\nHost: bench\r\nContent-Type: text/plain\r\n"+
			"Content-Length: %d\r\n\r\n%s", method, l.list, query, body.Len(), body.Bytes()))
	}

	return requests
}

func (l *lists) pages() [][]byte {
	requests := make([][]byte, 0, l.items*batched/aRequest)
	after := ""

	for first := 0; first < l.items*batched; first += aRequest {
		requests = append(requests, fmt.Appendf(nil, "GET /iidy/v1/batch/lists/%s?count=%d&after_id=%s HTTP/1.1\r\nHost: bench\r\n\r\n",
			l.list, aRequest, url.QueryEscape(after)))
		after = benchItem(first + aRequest - 1)
	}

	return requests
}

func (l *lists) singles(method, query string) [][]byte {
	requests := make([][]byte, l.items*singly)
	for i := range requests {
		requests[i] = fmt.Appendf(nil, "%s /iidy/v1/lists/%s/%s%s HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n",
			method, l.list, url.PathEscape(singleItem(i)), query)
	}

	return requests
}

// progress asks how the list stands.
func (l *lists) progress(ctx context.Context) (p listState, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+"/iidy/v1/lists/"+l.list, http.NoBody)
	if err != nil {
		return p, fmt.Errorf("make the request: %w", err)
	}

	request.Header.Set("Accept", "application/json")

	response, err := l.client.Do(request)
	if err != nil {
		return p, fmt.Errorf("read the list's progress: %w", err)
	}

	defer func() { err = errors.Join(err, response.Body.Close()) }()

	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return p, fmt.Errorf("read the list's progress: %w", err)
	}

	if response.StatusCode != http.StatusOK {
		return p, fmt.Errorf("read the list's progress: status %s: %s", response.Status, strings.TrimSpace(string(body)))
	}

	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("read the list's progress: %w", err)
	}

	return p, nil
}
