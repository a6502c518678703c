package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
)

// The databases of the bench of events. Those of MariaDB are missing where there is no server.
const (
	own        = "events" // of the service's replicas
	small      = "events_small"
	large      = "events_large"
	mariaLarge = "events_maria"
	mariaFresh = "events_fresh"
)

// pendingBeside is how many pending events lie in the tables whose claims and lookups are measured.
const pendingBeside = 1000

// events adds events, reads them and lets workers work them, on both engines and at two sizes.
type events struct {
	many    int // the larger of the two sizes, and
	few     int // the smaller one
	backlog int // what the workers are given
	tables  map[string]*eventTable
}

func newEvents(o Options) suite {
	e := &events{many: 1_000_000, few: 10_000, backlog: 100_000}
	if !o.Judge { // a smoke test
		e.many, e.few, e.backlog = 20_000, 1_000, 4_000
	}
	const many = "1,000,000 processed"
	add := func() []byte { return request(http.MethodPost, "/events", "", "") }
	count := func() []byte { return request(http.MethodGet, "/events", "", "") }
	lookup := func() []byte { return request(http.MethodGet, fmt.Sprintf("/events/%d", 1+rand.IntN(e.many)), "", "") }
	return suite{
		prepare: e.prepare,
		scenarios: []scenario{
			{
				name: "pgbench-event", title: "bare pgbench, one transaction per id",
				pgbench: func() string { return eventScript },
			},
			{
				name: "add", title: "POST /events, " + replicas(o.Replicas), baseline: "pgbench-event", replicas: o.Replicas,
				drive: e.add(own, add),
			},
			{name: "claim-few", title: "claim of 100, 10,000 processed", run: e.claim(small)},
			{name: "claim-many", title: "claim of 100, " + many, run: e.claim(large)},
			{name: "lookup", title: "GET /events/{id}, " + many, replicas: 1, drive: e.read(large, lookup)},
			{name: "count", title: "GET /events, " + many, replicas: 1, drive: e.read(large, count)},
			{name: "work-1", title: "work, 1 worker", run: e.work(own, 1, 1)},
			{name: "work-4", title: "work, 4 workers in 2 processes", run: e.work(own, 2, 2)},
			{
				name: "mariadb-add", maria: true, title: "MariaDB: POST /events, " + replicas(o.Replicas), replicas: o.Replicas,
				drive: e.add(mariaFresh, add),
			},
			{name: "mariadb-claim", maria: true, title: "MariaDB: claim of 100, " + many, run: e.claim(mariaLarge)},
			{
				name: "mariadb-lookup", maria: true, title: "MariaDB: GET /events/{id}, " + many, replicas: 1,
				drive: e.read(mariaLarge, lookup),
			},
			{name: "mariadb-work-1", maria: true, title: "MariaDB: work, 1 worker", run: e.work(mariaFresh, 1, 1)},
			{
				name: "mariadb-work-4", maria: true, title: "MariaDB: work, 4 workers in 2 processes",
				run: e.work(mariaFresh, 2, 2),
			},
		},
		bars: []bar{
			{"POST /events", perSecond, "add", "pgbench-event", atLeast, 6},
			{"workers together", perSecond, "work-4", "", atLeast, 20_000},
			{"claim at 1,000,000 processed", p50, "claim-many", "claim-few", atMost, 2},
			{"lookup at 1,000,000, median", p50, "lookup", "", atMost, 3},
		},
	}
}

func (e *events) prepare(ctx context.Context, r *runner) error {
	r.printf("filling tables with %d and %d processed events\n", e.few, e.many)
	e.tables = map[string]*eventTable{own: {url: r.system.url}}
	for _, t := range []struct {
		engine, name string
		processed    int
	}{
		{services.PostgreSQL, small, e.few},
		{services.PostgreSQL, large, e.many},
		{services.MySQL, mariaLarge, e.many},
		{services.MySQL, mariaFresh, 0},
	} {
		url, err := r.system.database(ctx, t.engine, t.name)
		if errors.Is(err, localmaria.ErrNotInstalled) {
			return nil
		}
		table := &eventTable{url: url, mysql: t.engine == services.MySQL}
		if err == nil && t.processed > 0 {
			err = table.fill(ctx, t.processed)
		}
		if err != nil {
			return fmt.Errorf("make the database %s: %w", t.name, err)
		}
		e.tables[t.name] = table
	}
	return nil
}

// add drives POST /events, on replicas of its own but for the service's own database.
func (e *events) add(name string, next func() []byte) func(*runner) drive {
	return func(*runner) drive {
		t := e.tables[name]
		d := drive{Config: load.Config{Next: next}, state: t.number(`SELECT count(*) FROM events.events`)}
		if name != own {
			d.environ = map[string]string{"DATABASE_URL": t.url}
		}
		return d
	}
}

// read sends GETs over one connection, so that the latency is that of the work and not of a queue.
func (e *events) read(name string, next func() []byte) func(*runner) drive {
	return func(r *runner) drive {
		d := e.add(name, next)(r)
		d.state, d.Connections, d.Duration = nil, 1, max(r.options.Duration/2, time.Second)
		return d
	}
}

// claim returns a run that measures what a worker's first statement costs.
func (e *events) claim(name string) func(context.Context, *runner) (Result, error) {
	return func(ctx context.Context, _ *runner) (Result, error) {
		took, err := e.tables[name].claims(ctx, 300)
		if err != nil {
			return Result{}, err
		}
		return runOfLatency(took), nil
	}
}

// work returns a run in which workers, so many in each process, work a backlog that is there when they start. It takes
// the time from the first event to the last.
func (e *events) work(name string, processes, each int) func(context.Context, *runner) (Result, error) {
	return func(ctx context.Context, r *runner) (run Result, err error) {
		t := e.tables[name]
		processed := t.number(`SELECT count(*) FROM events.events WHERE value IS NOT NULL`)
		before, err := processed(ctx)
		if err != nil {
			return Result{}, err
		}
		if err := t.enqueue(ctx, e.backlog); err != nil {
			return Result{}, err
		}
		set, err := r.system.run(ctx, local.Spec{
			Args: []string{"work"}, NoAPI: true,
			Environ: map[string]string{"DATABASE_URL": t.url, "WORKER_CONCURRENCY": strconv.Itoa(each)},
		}, processes)
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, set.Stop(context.WithoutCancel(ctx))) }()
		took, err := untilWorked(ctx, fleetOf(set).admin, e.backlog)
		if err != nil {
			return Result{}, err
		}
		after, err := processed(ctx)
		run = Result{Figures: Figures{perSecond: float64(e.backlog) / took.Seconds()}}
		run.check(load.Tally{Acknowledged: int64(e.backlog)}, after-before)
		return run, err
	}
}

// untilWorked waits until the workers together report n events as worked, and returns the time since the first.
func untilWorked(ctx context.Context, admin []string, n int) (time.Duration, error) {
	for started, first := time.Now(), true; ; {
		sum := 0
		for _, addr := range admin {
			v, err := local.Metric(ctx, addr, "events_worked_total")
			if err != nil {
				return 0, err
			}
			sum += int(v)
		}
		if first && sum > 0 {
			first, started = false, time.Now()
		}
		if sum >= n {
			return time.Since(started), nil
		}
		if !sleep(ctx, 5*time.Millisecond) {
			return 0, fmt.Errorf("%d of %d events were worked: %w", sum, n, ctx.Err())
		}
	}
}

// eventScript is the flow of the source: a transaction for each id.
const eventScript = `BEGIN;
SELECT id FROM events.status FOR UPDATE;
UPDATE events.status SET id = id + 1 RETURNING id AS taken \gset
INSERT INTO events.events (id, value) VALUES (:taken, 'pgbench');
COMMIT;
`
