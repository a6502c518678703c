package bench

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(targets.Counts, newCounts)

// The scenarios that others are compared with.
const (
	bareUniform = "pgbench-uniform"
	bareRow     = "pgbench-row"
	bareIncr    = "redis"
	traceOff    = "trace-off"
)

const (
	// aBatch is how many changes a request has that names several, and redisCallers how many callers send such ones, or
	// single changes to Redis.
	aBatch       = 100
	redisCallers = 32
	// batches is how many different ones are drawn from.
	batches = 2000
)

// newCounts increases counters, all of them and one. They are made once and kept; sums are compared by difference.
func newCounts(r *runner) suite {
	switch {
	case r.Trace:
		return newTrace(r)
	case r.Bloat > 0:
		return newBloat(r)
	}

	uniform := func() drive { return r.increases(r.rows(), 2) }
	hot := func(replicas int) func(context.Context) (Result, error) {
		return r.driving(func() drive { return r.increases(1, replicas) })
	}
	batch := func(n int) func(context.Context) (Result, error) {
		return r.driving(func() drive { return r.batches(n) })
	}

	open := func(d drive) drive {
		d.Rate, d.Duration = float64(r.pick(10_000, 1000)), 3*r.Duration
		return d
	}
	return suite{replicas: 3, prepare: r.prepareCounts, scenarios: append([]Scenario{
		{Name: bareUniform, Anchor: true, Title: "bare pgbench, uniform", run: r.bare(updateScript(r.rows()))},
		{
			Name: "uniform", Title: "uniform, 2 replicas", Baseline: bareUniform, Bars: Figures{perSecond: 1},
			run: r.driving(uniform),
		},
		{
			Name: "uniform-keys", Title: "uniform, a fresh key on each request", Baseline: "uniform",
			Bars: Figures{perSecond: 0.6}, run: r.driving(func() drive { return withKeys(uniform()) }),
		},
		{Name: bareRow, Anchor: true, Title: "bare pgbench, one row", run: r.bare(updateScript(1))},
		{Name: "hot-1", Title: "one hot item, 1 replica", Baseline: bareRow, run: hot(1)},
		{Name: "hot-2", Title: "one hot item, 2 replicas", Baseline: bareRow, Bars: Figures{perSecond: 6}, run: hot(2)},
		{
			Name: "hot-keys", Title: "one hot item, 2 replicas, a fresh key on each request", Baseline: "hot-2",
			Bars: Figures{perSecond: 0.6}, run: r.driving(func() drive { return withKeys(r.increases(1, 2)) }),
		},
		{Name: "hot-3", Title: "one hot item, 3 replicas", Baseline: bareRow, run: hot(3)},
		{
			// 200 ms are promised. The garbage collector moves the memory by a few percent either way.
			Name: "open", Title: "open loop, uniform, 2 replicas",
			Bars: Figures{errorCount: 0, p99: 50, memoryGrowth: 1.10},
			run:  r.driving(func() drive { return open(uniform()) }),
		},
		{
			Name: "open-keys", Title: "open loop, uniform, 2 replicas, a fresh key on each request",
			Bars: Figures{errorCount: 0}, run: r.driving(func() drive { return open(withKeys(uniform())) }),
		},
		{
			Name: bareIncr, Anchor: true, Title: "Redis, INCR, appendfsync always, 32 callers",
			run: r.incr(redisCallers, r.rows()),
		},
		{
			Name: "batch", Title: "changes, 100 a request, uniform, 2 replicas, 32 callers", Baseline: bareIncr,
			Bars: Figures{perSecond: 1.5}, run: batch(r.rows()),
		},
		{
			Name: "batch-hot", Title: "changes, 100 a request, one hot item, 2 replicas, 32 callers", Baseline: bareIncr,
			Bars: Figures{perSecond: 10}, run: batch(1),
		},
	}, r.sweep(updateScript(r.rows()), r.loaded(targets.Counts, uniform))...)}
}

// newTrace drives replicas that differ in nothing but their sampling of traces.
func newTrace(r *runner) suite {
	traced := func(share string) func(context.Context) (Result, error) {
		return r.driving(func() drive {
			d := r.increases(r.rows(), 2)
			d.environ = map[string]string{}
			if share != "" {
				d.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = r.sinkURL
				d.environ["OTEL_TRACES_SAMPLER"], d.environ["OTEL_TRACES_SAMPLER_ARG"] = "parentbased_traceidratio", share
			}
			return d
		})
	}
	return suite{replicas: 1, prepare: r.prepareCounts, scenarios: []Scenario{
		{Name: traceOff, Title: "uniform, tracing off", run: traced("")},
		{
			Name: "trace-1", Title: "uniform, 1 % of the requests traced", Baseline: traceOff,
			Bars: Figures{perSecond: 0.95}, run: traced("0.01"),
		},
		{Name: "trace-100", Title: "uniform, every request traced", Baseline: traceOff, run: traced("1")},
	}}
}

// prepareCounts makes the items.
func (r *runner) prepareCounts(ctx context.Context) error {
	if err := r.updateTable(ctx); err != nil {
		return err
	}
	return execute(ctx, r.url, fmt.Sprintf(`INSERT INTO counts.count_values (item_id)
		SELECT 'bench-' || n FROM generate_series(0, %d) AS n`, r.rows()-1))
}

// increases draws from requests for the first n items.
func (r *runner) increases(n, replicas int) drive {
	requests := make([][]byte, n)
	for i := range requests {
		requests[i] = request(http.MethodPost, fmt.Sprintf("/api/v1/counts/bench-%d/increase", i), "", "")
	}
	return drive{
		Config: load.Config{Next: load.Draw(requests)}, replicas: replicas,
		state: number(r.url, `SELECT sum(current_value)::bigint FROM counts.count_values WHERE item_id LIKE 'bench-%'`),
	}
}

// withKeys returns the load with a random key on each request, as a client that makes UUIDs sends them: they are spread
// over all of an index.
func withKeys(d drive) drive {
	next := d.Next
	d.Next = func() []byte {
		header := bytes.TrimSuffix(next(), []byte("\r\n")) // the requests have no body
		return fmt.Appendf(slices.Clip(header), "Idempotency-Key: %016x%016x\r\n\r\n", rand.Uint64(), rand.Uint64())
	}
	return d
}

// batches draws from requests of changes of the first n items, each equally likely.
func (r *runner) batches(n int) drive {
	d := r.increases(1, 2)
	requests := make([][]byte, batches)
	for i := range requests {
		changes := make([]string, aBatch)
		for j := range changes {
			changes[j] = fmt.Sprintf(`{"itemId":"bench-%d","amount":1}`, rand.IntN(n))
		}
		requests[i] = request(http.MethodPost, "/api/v1/counts", jsonHeader, `{"changes":[`+strings.Join(changes, ",")+`]}`)
	}
	d.Next, d.Connections, d.items = load.Draw(requests), redisCallers, aBatch
	return d
}

// updateTable makes the table that bare pgbench updates, with one row for each item and the fillfactor that the table
// of counts has, for the two to be comparable.
func (r *runner) updateTable(ctx context.Context) error {
	return execute(ctx, r.url,
		`CREATE SCHEMA rowlock_bench`,
		fmt.Sprintf(`CREATE TABLE rowlock_bench.counters (id bigint PRIMARY KEY, value bigint NOT NULL DEFAULT 0)
			WITH (fillfactor = %d)`, fillFactor),
		fmt.Sprintf(`INSERT INTO rowlock_bench.counters (id) SELECT generate_series(1, %d)`, r.rows()),
		`VACUUM (ANALYZE) rowlock_bench.counters`)
}

// updateScript draws one of the first rows for each transaction, each equally likely. One row has the same statement
// and plan; only the row does not change.
func updateScript(rows int) string {
	return fmt.Sprintf(`\set id random(1, %d)
UPDATE rowlock_bench.counters SET value = value + 1 WHERE id = :id;
`, rows)
}

const (
	// bloatLife is the lifetime of keys, KEY_TTL, while the tables are watched: the least that the service takes. Then
	// they have to stay as large as they are.
	bloatLife = time.Minute
	// leastBloat is the shortest watch, of whose thirds the first sees the tables grow.
	leastBloat = 6 * bloatLife
	// bloatLook is the time from one look at the tables to the next.
	bloatLook = 10 * time.Second
)

// newBloat sends a fresh key with each request at full load, while keys come to their end as fast as they come in.
func newBloat(r *runner) suite {
	return suite{replicas: 1, prepare: r.prepareCounts, scenarios: []Scenario{{
		Name: "bloat", Title: "uniform, 2 replicas, a fresh key on each request, which lives for a minute",
		Bars: Figures{errorCount: 0, tablesGrowth: 1.1},
		run: func(ctx context.Context) (Result, error) {
			d := withKeys(r.increases(r.rows(), 2))
			d.environ = map[string]string{"KEY_TTL": bloatLife.String()}
			d.Duration = r.Bloat
			watch, stop := context.WithCancel(ctx)
			defer stop()
			seen := make(chan Figures, 1)
			go func() { seen <- r.watchTables(watch) }()
			run, err := r.load(ctx, d)
			if stop(); err == nil {
				maps.Copy(run.Figures, <-seen)
			}
			return run, err
		},
	}}}
}

// tablesSQL returns the size of the tables of slots and keys with their indexes in MiB, and their live and dead rows.
const tablesSQL = `SELECT sum(pg_total_relation_size(relid)) / 1048576.0, sum(n_live_tup), sum(n_dead_tup)
	FROM pg_stat_user_tables WHERE schemaname = 'counts' AND relname IN ('slots', 'idempotency_keys')`

// watchTables prints the size of the tables again and again until ctx ends, and returns its figures.
func (r *runner) watchTables(ctx context.Context) Figures {
	begin := time.Now()
	seen, middle, last := Figures{}, 0.0, 0.0
	r.printf("\n")
	for fault.Wait(ctx, bloatLook) {
		var mebi, live, dead float64
		if row(ctx, r.url, tablesSQL, &mebi, &live, &dead) != nil {
			continue
		}
		switch at := time.Since(begin); {
		case at > 2*r.Bloat/3:
			last = max(last, mebi)
		case at > r.Bloat/3:
			middle = max(middle, mebi)
		}
		r.printf("%10s: %.0f MiB, %.0f rows, %.0f dead ones\n", time.Since(begin).Round(time.Second), mebi, live, dead)
		seen[tables] = mebi
	}

	if middle > 0 {
		seen[tablesGrowth] = last / middle
	}
	return seen
}
