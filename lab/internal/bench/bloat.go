package bench

import (
	"context"
	"maps"
	"time"
)

const (
	// bloatLife is how long keys are kept, KEY_TTL, while the tables are watched: the least that the service takes. Then
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
	for sleep(ctx, bloatLook) {
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
