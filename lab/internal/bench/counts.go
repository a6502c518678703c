package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(targets.Counts, newCounts)

// The scenarios that others are compared with.
const (
	bareUniform = "pgbench-uniform"
	bareRow     = "pgbench-row"
	bareIncr    = "redis"
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
		{
			Name: "bloat", Title: "uniform, 2 replicas, a fresh key on each request, which lives for a minute", named: true,
			Bars: Figures{errorCount: 0, tablesGrowth: 1.1},
			run: r.driving(func() drive {
				d := withKeys(uniform())
				// A minute is the least that the service takes. After it as many keys end as come in.
				d.environ, d.size = map[string]string{"KEY_TTL": "1m"}, tablesSQL
				return d
			}),
		},
	}, r.sweep(updateScript(r.rows()), r.loaded(r.Service, uniform))...)}
}

// prepareCounts makes the items.
func (r *runner) prepareCounts(ctx context.Context) error {
	if err := r.updateTable(ctx); err != nil {
		return err
	}
	return local.Send(ctx, r.url, fmt.Sprintf(`INSERT INTO counts.count_values (item_id)
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
	return local.Send(ctx, r.url,
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

// tablesSQL returns the size of the tables of slots and keys with their indexes in MiB.
const tablesSQL = `SELECT sum(pg_total_relation_size(relid)) / 1048576.0
	FROM pg_stat_user_tables WHERE schemaname = 'counts' AND relname IN ('slots', 'idempotency_keys')`
