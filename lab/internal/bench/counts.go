package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

// The scenarios that others are compared with, or that several bars are about.
const (
	bareUniform = "pgbench-uniform"
	bareRow     = "pgbench-row"
	openLoop    = "open"
	traceOff    = "trace-off"
)

// maxHotReplicas is how many replicas the hot scenarios compare.
const maxHotReplicas = 3

// newCounts increases counters, all of them and one. They are made once and kept; sums are compared by difference.
func newCounts(o Options) suite {
	if o.Trace {
		return newTrace(o)
	}
	own := "hot-" + strconv.Itoa(o.Replicas)
	s := suite{
		prepare: prepareCounts,
		scenarios: []scenario{
			{name: bareUniform, title: "bare pgbench, uniform", pgbench: updateScript(o.Items)},
			{
				name: "uniform", title: "uniform, " + replicas(o.Replicas), baseline: bareUniform, replicas: o.Replicas,
				drive: increases(o.Items),
			},
			{name: bareRow, title: "bare pgbench, one row", pgbench: updateScript(1)},
		},
		bars: []bar{
			{"saturated, uniform", perSecond, "uniform", bareUniform, atLeast, 1},
			{"saturated, one hot item", perSecond, own, bareRow, atLeast, 6},
			{"open loop, errors", errorCount, openLoop, "", atMost, 0},
			{"open loop, p99 (200 ms are promised)", p99, openLoop, "", atMost, 50},
			// The garbage collector moves the memory by a few percent either way.
			{"open loop, memory at the end over the middle", memoryGrowth, openLoop, "", atMost, 1.10},
		},
	}
	for n := 1; n <= max(maxHotReplicas, o.Replicas); n++ {
		if n <= maxHotReplicas || n == o.Replicas {
			s.scenarios = append(s.scenarios, scenario{
				name: "hot-" + strconv.Itoa(n), title: "one hot item, " + replicas(n), baseline: bareRow, replicas: n,
				drive: increases(1),
			})
		}
	}
	s.scenarios = append(s.scenarios, scenario{
		name: openLoop, title: fmt.Sprintf("open loop, %s/s, uniform, %s", format(perSecond, o.Rate), replicas(o.Replicas)),
		replicas: o.Replicas, drive: func(r *runner) drive {
			d := increases(o.Items)(r)
			d.Rate, d.Duration = o.Rate, o.OpenDuration
			return d
		},
	})
	return s
}

// newTrace drives replicas that differ in nothing but their sampling of traces.
func newTrace(o Options) suite {
	s := suite{prepare: prepareCounts, bars: []bar{
		{"1 % traced", perSecond, "trace-1", traceOff, atLeast, 0.95},
		{"every request traced", perSecond, "trace-100", traceOff, noBound, 1},
	}}
	for _, one := range []struct{ name, title, baseline, share string }{
		{traceOff, "uniform, tracing off", "", ""},
		{"trace-1", "uniform, 1 % of the requests traced", traceOff, "0.01"},
		{"trace-100", "uniform, every request traced", traceOff, "1"},
	} {
		s.scenarios = append(s.scenarios, scenario{
			name: one.name, title: one.title, baseline: one.baseline, replicas: o.Replicas,
			drive: func(r *runner) drive {
				d := increases(o.Items)(r)
				d.environ = map[string]string{}
				if one.share != "" {
					d.environ = map[string]string{
						"OTEL_EXPORTER_OTLP_ENDPOINT": r.system.sinkURL, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
						"OTEL_TRACES_SAMPLER_ARG": one.share,
					}
				}
				return d
			},
		})
	}
	return s
}

// prepareCounts makes the items; those that are there already are left as they are.
func prepareCounts(ctx context.Context, r *runner) error {
	r.printf("making %d items\n", r.options.Items)
	if err := r.updateTable(ctx); err != nil {
		return err
	}
	return execute(ctx, r.system.url, fmt.Sprintf(`INSERT INTO counts.count_values (item_id)
		SELECT 'bench-' || n FROM generate_series(0, %d) AS n ON CONFLICT DO NOTHING`, r.options.Items-1))
}

// increases draws from requests for the first n items.
func increases(n int) func(r *runner) drive {
	return func(r *runner) drive {
		requests := make([][]byte, n)
		for i := range requests {
			requests[i] = request(http.MethodPost, fmt.Sprintf("/api/v1/counts/bench-%d/increase", i), "", "")
		}
		return drive{
			Config: load.Config{Requests: requests},
			state: number(r.system.url, `SELECT sum(current_value)::bigint FROM counts.count_values
				WHERE item_id LIKE 'bench-%'`),
		}
	}
}

// updateTable makes the table that bare pgbench updates, with one row for each item and the fillfactor that the table
// of counts has, for the two to be comparable.
func (r *runner) updateTable(ctx context.Context) error {
	return execute(ctx, r.system.url,
		`CREATE SCHEMA IF NOT EXISTS rowlock_bench`,
		`DROP TABLE IF EXISTS rowlock_bench.counters`,
		`CREATE TABLE rowlock_bench.counters (id bigint PRIMARY KEY, value bigint NOT NULL DEFAULT 0) WITH (fillfactor = `+
			strconv.Itoa(pgbench.FillFactor)+`)`,
		`INSERT INTO rowlock_bench.counters (id) SELECT generate_series(1, `+strconv.Itoa(r.options.Items)+`)`,
		`VACUUM (ANALYZE) rowlock_bench.counters`)
}

// updateScript draws one of the first rows for each transaction, each equally likely. One row has the same statement
// and plan; only the row does not change.
func updateScript(rows int) func() string {
	script := fmt.Sprintf(`\set id random(1, %d)
UPDATE rowlock_bench.counters SET value = value + 1 WHERE id = :id;
`, rows)
	return func() string { return script }
}
