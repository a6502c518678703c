package bench

import (
	"context"
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
	maxItems = 100_000
	idsACall = 500 // the most that one GET of counts answers
	hotItem  = 0   // the index of the item that the hot scenarios increase
)

// counters are the items of the counts service that a bench increases. They are made once and kept; sums are compared by difference.
type counters struct {
	base   string // the API of one replica
	items  int
	client *http.Client
}

func newCounters(target string, items int) *counters {
	return &counters{base: "http://" + target, items: items, client: &http.Client{Timeout: 30 * time.Second}}
}

func (c *counters) prepare(ctx context.Context, r *runner) (err error) {
	if r.hasPGBench() && !r.options.Trace {
		if r.baseline, err = pgbench.New(ctx, r.system.PGBench, r.system.DatabaseURL, r.options.Items); err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
	}

	r.progress.printf("making %d items\n", r.options.Items)

	return c.create(ctx, r.system.Replicas)
}

func (*counters) runBaseline(ctx context.Context, r *runner, s scenario) (pgbench.Result, error) {
	target := pgbench.Uniform
	if s.hot {
		target = pgbench.OneRow
	}

	return r.baseline.Run(ctx, target, r.options.Duration)
}

func (c *counters) run(ctx context.Context, r *runner, s scenario) (Run, error) {
	before, err := c.sum(ctx)
	if err != nil {
		return Run{}, err
	}

	cfg := r.config(s, c.increases(s.hot))
	if s.kind == kindOpen {
		cfg.Rate, cfg.Duration = r.options.Rate, r.options.OpenDuration
	}

	var spansBefore int64
	if r.options.Trace {
		if spansBefore, err = r.system.Spans(ctx); err != nil {
			return Run{}, err
		}
	}

	result, seen, err := r.drive(ctx, cfg, s, load.Run)
	if err != nil {
		return Run{}, err
	}

	after, err := c.sum(ctx)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.Sum = &SumCheck{Tally: result.Tally, Gained: after - before}

	if r.options.Trace {
		spans, err := r.system.Spans(ctx)
		if err != nil {
			return Run{}, err
		}

		run.Spans = spans - spansBefore
	}

	if s.kind == kindOpen {
		lateness := latencyOf(result.Lateness)
		run.Lateness = &lateness
	}

	return run, nil
}

func itemID(i int) string { return fmt.Sprintf("bench-%05d", i) }

// create makes all items; those that are there already are left as they are.
func (c *counters) create(ctx context.Context, targets []string) error {
	requests := make([][]byte, c.items)
	for i := range requests {
		body := fmt.Sprintf(`{"itemId":%q}`, itemID(i))
		requests[i] = fmt.Appendf(nil, "POST /api/v1/internal/counts HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(body), body)
	}

	result, err := load.Once(ctx, load.Config{Targets: targets, Requests: requests, Connections: 8 * len(targets)})
	if err != nil {
		return fmt.Errorf("make the items: %w", err)
	}

	if made := result.Tally.Acknowledged + result.Statuses[http.StatusConflict]; made != int64(c.items) {
		return fmt.Errorf("make the items: %d of %d are there; other answers by status %v, without an answer %v",
			made, c.items, result.Statuses, result.Failures)
	}

	return nil
}

// increases are the requests that a run draws from.
func (c *counters) increases(hot bool) [][]byte {
	if hot {
		return [][]byte{increase(hotItem)}
	}

	requests := make([][]byte, c.items)
	for i := range requests {
		requests[i] = increase(i)
	}

	return requests
}

func increase(i int) []byte {
	return fmt.Appendf(nil, "POST /api/v1/counts/%s/increase HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n", itemID(i))
}

// sum adds up the values of all items.
func (c *counters) sum(ctx context.Context) (int64, error) {
	var total int64

	for from := 0; from < c.items; from += idsACall {
		part, err := c.sumOf(ctx, from, min(from+idsACall, c.items))
		if err != nil {
			return 0, fmt.Errorf("sum of the counters: %w", err)
		}

		total += part
	}

	return total, nil
}

func (c *counters) sumOf(ctx context.Context, from, to int) (total int64, err error) {
	query := make(url.Values)
	for i := from; i < to; i++ {
		query.Add("itemIds", itemID(i))
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/internal/counts?"+query.Encode(), http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}

	response, err := c.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read %d counts: %w", to-from, err)
	}

	defer func() { err = errors.Join(err, response.Body.Close()) }()

	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, fmt.Errorf("read %d counts: %w", to-from, err)
	}

	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read %d counts: status %s: %s", to-from, response.Status, strings.TrimSpace(string(body)))
	}

	var counts []struct {
		CurrentValue int64 `json:"currentValue"`
	}
	if err := json.Unmarshal(body, &counts); err != nil {
		return 0, fmt.Errorf("read %d counts: %w", to-from, err)
	}

	if len(counts) != to-from {
		return 0, fmt.Errorf("read %d counts: only %d are there", to-from, len(counts))
	}

	for _, count := range counts {
		total += count.CurrentValue
	}

	return total, nil
}

// SumCheck compares what the counters gained in a run with what the generator was told.
type SumCheck struct {
	load.Tally

	// Gained is how much the sum of all counters grew.
	Gained int64 `json:"gained"`
}

// Holds reports whether every acknowledged increment is there once, no refused one is, and nothing else but unknown ones can be.
func (s SumCheck) Holds() bool {
	return s.Acknowledged <= s.Gained && s.Gained <= s.Acknowledged+s.Unknown
}
