package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localmaria"
)

var _ = register(targets.Events, newEvents)

// The databases of the bench of events. Those of MariaDB are missing where there is no server.
const (
	own        = "events" // of the service's replicas
	small      = "events_small"
	large      = "events_large"
	mariaLarge = "events_maria"
	mariaFresh = "events_fresh"
)

// events adds events, reads them and lets workers work them, on both engines and at two sizes.
type events struct {
	*runner

	few, many int // the two sizes
	tables    map[string]eventTable
}

func newEvents(r *runner) suite {
	e := &events{runner: r, few: r.pick(10_000, 1000), many: r.pick(1_000_000, 20_000)}
	const bare, many = "pgbench-event", "1,000,000 processed"
	post := func() drive { return e.post(e.tables[own]) }
	return suite{replicas: 2, prepare: e.prepare, scenarios: append([]Scenario{
		{Name: bare, Anchor: true, Title: "bare pgbench, one transaction per id", run: r.bare(eventScript)},
		{Name: "add", Title: "POST /events, 2 replicas", Baseline: bare, Bars: Figures{perSecond: 6}, run: r.driving(post)},
		{Name: "claim-few", Title: "claim of 100, 10,000 processed", run: e.claim(small)},
		{
			Name: "claim-many", Title: "claim of 100, " + many, Baseline: "claim-few", Bars: Figures{p50: 2},
			run: e.claim(large),
		},
		{Name: "lookup", Title: "GET /events/{id}, " + many, Bars: Figures{p50: 3}, run: e.read(large, e.lookup)},
		{Name: "count", Title: "GET /events, " + many, run: e.read(large, func() string { return "/events" })},
		{Name: "work-1", Title: "work, 1 worker", run: e.work(own, 1)},
		{Name: "work-4", Title: "work, 4 workers in 2 processes", Bars: Figures{perSecond: 20_000}, run: e.work(own, 2)},
		{Name: "mariadb-add", Title: "MariaDB: POST /events, 2 replicas", run: e.add(mariaFresh)},
		{Name: "mariadb-claim", Title: "MariaDB: claim of 100, " + many, run: e.claim(mariaLarge)},
		{Name: "mariadb-lookup", Title: "MariaDB: GET /events/{id}, " + many, run: e.read(mariaLarge, e.lookup)},
		{Name: "mariadb-work-1", Title: "MariaDB: work, 1 worker", run: e.work(mariaFresh, 1)},
		{Name: "mariadb-work-4", Title: "MariaDB: work, 4 workers in 2 processes", run: e.work(mariaFresh, 2)},
	}, r.sweep(eventScript, r.loaded(r.Service, post))...)}
}

// prepare makes databases with processed events, those on MariaDB where it is installed.
func (e *events) prepare(ctx context.Context) error {
	e.tables = map[string]eventTable{own: {url: e.url}}
	err := e.newTable(ctx, e.postgres.URL, "postgres", small, e.few)
	if err = errors.Join(err, e.newTable(ctx, e.postgres.URL, "postgres", large, e.many)); err != nil {
		return err
	}

	maria, err := localmaria.Start(ctx, localmaria.Options{Parent: serverParent})
	if errors.Is(err, localmaria.ErrNotInstalled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	e.onStop(func(context.Context) error { return maria.Stop() })
	return errors.Join(
		e.newTable(ctx, maria.URL, mysql, mariaLarge, e.many), e.newTable(ctx, maria.URL, mysql, mariaFresh, 0))
}

// mysql is a database that is there on MariaDB.
const mysql = "mysql"

// newTable makes a database with processed events, on a server on which the database admin is there.
func (e *events) newTable(ctx context.Context, url func(string) string, admin, name string, processed int) error {
	table, environ := eventTable{url(name), admin == mysql}, maps.Clone(e.environ)
	environ["DATABASE_URL"] = table.url
	e.tables[name] = table
	err := local.Send(ctx, url(admin), "CREATE DATABASE "+name)
	if err == nil {
		err = local.Migrate(ctx, e.binary, environ)
	}
	if err == nil && processed > 0 {
		err = table.fill(ctx, processed)
	}
	return err
}

// on returns a run on the table of that name.
func (e *events) on(
	name string, run func(ctx context.Context, t eventTable) (Result, error),
) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) {
		t, ok := e.tables[name]
		if !ok {
			return Result{}, errLeftOut
		}
		return run(ctx, t)
	}
}

// post drives POST /events, and compares with the table.
func (e *events) post(t eventTable) drive {
	requests := [][]byte{request(http.MethodPost, "/events", "", "")}
	return drive{
		replicas: 2, Config: load.Config{Next: load.Draw(requests)},
		state: number(t.url, t.sql(`SELECT count(*) FROM events.events`)),
	}
}

// add drives replicas that use the table of that name.
func (e *events) add(name string) func(context.Context) (Result, error) {
	return e.on(name, func(ctx context.Context, t eventTable) (Result, error) {
		d := e.post(t)
		d.environ = map[string]string{"DATABASE_URL": t.url}
		return e.load(ctx, d)
	})
}

// read sends GETs over one connection, so that the latency shows the work and not a queue.
func (e *events) read(name string, path func() string) func(context.Context) (Result, error) {
	return e.on(name, func(ctx context.Context, t eventTable) (Result, error) {
		return e.load(ctx, drive{replicas: 1, environ: map[string]string{"DATABASE_URL": t.url}, Config: load.Config{
			Next:        func() []byte { return request(http.MethodGet, path(), "", "") },
			Connections: 1, Duration: max(e.Duration/2, time.Second),
		}})
	})
}

func (e *events) lookup() string { return fmt.Sprintf("/events/%d", 1+rand.IntN(e.many)) }

// claim measures what a worker's first statement costs, on 100 events. It is rolled back.
func (e *events) claim(name string) func(context.Context) (Result, error) {
	return e.on(name, func(ctx context.Context, t eventTable) (run Result, err error) {
		query := t.sql(`SELECT count(*) FROM (SELECT id FROM events.events WHERE value IS NULL AND ctid >= '(0,0)'::tid
			LIMIT 100 FOR UPDATE SKIP LOCKED) AS claimed`)
		err = local.WithConn(ctx, t.url, func(conn *sql.Conn) error {
			run, err = e.oneByOne(func() (time.Duration, error) { return claimOnce(ctx, conn, query) })
			return err
		})
		return run, err
	})
}

// claimOnce returns the time of the statement.
func claimOnce(ctx context.Context, conn *sql.Conn, query string) (took time.Duration, err error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, err
	}

	claimed, begin := 0, time.Now()
	err = tx.QueryRowContext(ctx, query).Scan(&claimed)
	took = time.Since(begin)
	if claimed != 100 {
		err = errors.Join(fmt.Errorf("claim: %d events", claimed), err)
	}
	return took, errors.Join(err, tx.Rollback())
}

// work lets n processes with n workers each work a backlog that is there when they start. It takes the time from the
// first event to the last.
func (e *events) work(name string, n int) func(context.Context) (Result, error) {
	return e.on(name, func(ctx context.Context, t eventTable) (run Result, err error) {
		processed := number(t.url, t.sql(`SELECT count(*) FROM events.events WHERE value IS NOT NULL`))
		backlog := e.pick(100_000, 4000)
		before, err := processed(ctx)
		if err == nil {
			err = t.enqueue(ctx, backlog)
		}
		if err != nil {
			return Result{}, err
		}

		set, err := e.launch(ctx, local.Spec{
			Command: "work",
			Environ: map[string]string{"DATABASE_URL": t.url, "WORKER_CONCURRENCY": strconv.Itoa(n)},
		}, n)
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, set.Stop(context.WithoutCancel(ctx))) }()
		took, err := untilWorked(ctx, set.Statuses(), backlog)
		if err != nil {
			return Result{}, err
		}

		after, err := processed(ctx)
		run = Result{Figures: Figures{perSecond: float64(backlog) / took.Seconds()}}
		run.check(load.Tally{Acknowledged: int64(backlog)}, 1, after-before)
		return run, err
	})
}

// untilWorked waits until the workers together report n events as worked, and returns the time since the first.
func untilWorked(ctx context.Context, workers []local.Status, n int) (time.Duration, error) {
	var started time.Time
	for {
		sum := 0
		for _, one := range workers {
			v, err := local.Metric(ctx, one.Admin, "events_worked_total")
			if err != nil {
				return 0, err
			}
			sum += int(v)
		}

		if started.IsZero() && sum > 0 {
			started = time.Now()
		}
		if sum >= n {
			return time.Since(started), nil
		}

		if !fault.Wait(ctx, 5*time.Millisecond) {
			return 0, fmt.Errorf("%d of %d events were worked: %w", sum, n, ctx.Err())
		}
	}
}

// eventTable reaches the tables of events in one database behind the service.
type eventTable struct {
	url   string
	mysql bool
}

// sql returns a statement of PostgreSQL's in the words of the engine.
func (t eventTable) sql(postgres string) string {
	if !t.mysql {
		return postgres
	}
	return strings.NewReplacer(
		"events.status", "status", "events.events", "events", " AND ctid >= '(0,0)'::tid", "",
		"generate_series(1, ", "(SELECT seq AS n FROM seq_1_to_1000000 LIMIT ", ") AS s (n)", ") AS s",
		"'word' || (s.n % 3000)", "concat('word', s.n % 3000)",
	).Replace(postgres)
}

// fill puts processed events, and 1,000 pending ones beside them, into empty tables.
func (t eventTable) fill(ctx context.Context, processed int) error {
	err := t.add(ctx, processed, `'word' || (s.n % 3000)`)
	if err == nil {
		err = t.enqueue(ctx, 1000)
	}
	if err != nil || t.mysql {
		return err
	}
	return local.Send(ctx, t.url, `VACUUM ANALYZE events.events`)
}

// enqueue adds n pending events.
func (t eventTable) enqueue(ctx context.Context, n int) error { return t.add(ctx, n, `NULL`) }

// add adds n events with a value in one transaction.
func (t eventTable) add(ctx context.Context, n int, value string) error {
	return local.Send(ctx, t.url, `BEGIN`,
		t.sql(fmt.Sprintf(`UPDATE events.status SET id = id + %d`, n)),
		t.sql(fmt.Sprintf(`INSERT INTO events.events (id, value) SELECT status.id - %d + s.n, %s
			FROM events.status AS status, generate_series(1, %d) AS s (n)`, n, value, n)), `COMMIT`)
}

// eventScript is the flow of the source: a transaction for each id.
const eventScript = `BEGIN;
SELECT id FROM events.status FOR UPDATE;
UPDATE events.status SET id = id + 1 RETURNING id AS taken \gset
INSERT INTO events.events (id, value) VALUES (:taken, 'pgbench');
COMMIT;
`
