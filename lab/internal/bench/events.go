package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/platform/localmaria"
)

// EventsLab is how the bench of events gets databases and processes beside those of [System]: it compares two engines, two sizes, and
// workers that come and go.
type EventsLab interface {
	// Database makes an empty, migrated database on the engine's server: "postgres" or "mysql". The error is
	// [localmaria.ErrNotInstalled], by errors.Is, where there is no server of the kind.
	Database(ctx context.Context, engine, name string) (url string, err error)
	// Run starts n processes of a command of the service on a database. api and admin are their addresses.
	Run(ctx context.Context, command string, n int, url string, variables map[string]string) (p *Processes, err error)
}

// Processes run until Stop.
type Processes struct {
	API, Admin []string
	Stop       func(ctx context.Context) error
}

// eventful adds events, reads them and lets workers work them.
type eventful struct {
	lab     EventsLab
	url     string // of the service's own database
	many    int    // the larger of the two sizes, and
	few     int    // the smaller one
	backlog int    // what the workers are given

	small, large *eventTable // PostgreSQL
	maria, fresh *eventTable // MariaDB, large and empty; nil without a server
	reads        map[*eventTable]*Processes
	adds         *Processes // on MariaDB
}

func newEventful(lab EventsLab, o Options) *eventful {
	e := &eventful{lab: lab, many: 1_000_000, few: 10_000, backlog: 100_000, reads: make(map[*eventTable]*Processes)}
	if !o.Judge { // a smoke test
		e.many, e.few, e.backlog = 20_000, 1_000, 4_000
	}

	return e
}

func (e *eventful) prepare(ctx context.Context, r *runner) (err error) {
	if r.system.DatabaseURL == "" {
		return errors.New("the bench of events looks into the database, which has no URL")
	}

	e.url = r.system.DatabaseURL

	if r.hasPGBench() {
		if r.baseline, err = pgbench.NewScript(r.system.PGBench, r.system.DatabaseURL); err != nil {
			return err
		}
	}

	r.progress.printf("filling tables with %d and %d processed events\n", e.few, e.many)

	if e.small, err = e.table(ctx, "postgres", "events_small", e.few); err != nil {
		return err
	}

	if e.large, err = e.table(ctx, "postgres", "events_large", e.many); err != nil {
		return err
	}

	e.maria, err = e.table(ctx, "mysql", "events_large", e.many)
	if errors.Is(err, localmaria.ErrNotInstalled) {
		r.progress.printf("%v: its figures are left out\n", err)

		return nil
	}

	if err == nil {
		e.fresh, err = e.table(ctx, "mysql", "events_fresh", 0)
	}

	return err
}

// pendingBeside is how many pending events lie in the tables whose claims and lookups are measured.
const pendingBeside = 1000

func (e *eventful) table(ctx context.Context, engine, name string, processed int) (*eventTable, error) {
	url, err := e.lab.Database(ctx, engine, name)
	if err != nil {
		return nil, fmt.Errorf("make the database %s: %w", name, err)
	}

	t := &eventTable{url: url, mysql: engine == "mysql"}
	if processed == 0 {
		return t, nil
	}

	if err := t.fill(ctx, processed, pendingBeside); err != nil {
		return nil, fmt.Errorf("fill the database %s: %w", name, err)
	}

	return t, nil
}

// skip leaves out what needs a server that is not there.
func (e *eventful) skip(s scenario) bool { return s.mysql && e.maria == nil }

// eventScript is the flow of the source: a transaction for each id.
const eventScript = `BEGIN;
SELECT id FROM events.status FOR UPDATE;
UPDATE events.status SET id = id + 1 RETURNING id AS taken \gset
INSERT INTO events.events (id, value) VALUES (:taken, 'pgbench');
COMMIT;
`

func (*eventful) runBaseline(ctx context.Context, r *runner, _ scenario) (pgbench.Result, error) {
	return r.baseline.RunScript(ctx, eventScript, r.options.Duration)
}

func (e *eventful) run(ctx context.Context, r *runner, s scenario) (Run, error) {
	switch s.name {
	case scenarioAddEvent, scenarioMariaAdd:
		return e.add(ctx, r, s)
	case scenarioClaimFew:
		return e.claim(ctx, e.small)
	case scenarioClaimMany:
		return e.claim(ctx, e.large)
	case scenarioMariaClaim:
		return e.claim(ctx, e.maria)
	case scenarioLookup:
		return e.read(ctx, r, s, e.large, lookups(e.many))
	case scenarioMariaLookup:
		return e.read(ctx, r, s, e.maria, lookups(e.many))
	case scenarioCount:
		return e.read(ctx, r, s, e.large, [][]byte{get("/events")})
	default:
		return e.work(ctx, s)
	}
}

// add drives POST /events on as many replicas as the options say.
func (e *eventful) add(ctx context.Context, r *runner, s scenario) (Run, error) {
	table, targets := &eventTable{url: e.url}, r.system.Replicas[:s.replicas]

	if s.mysql {
		table = e.fresh

		if e.adds == nil {
			var err error
			if e.adds, err = e.lab.Run(ctx, "serve", r.options.Replicas, e.fresh.url, nil); err != nil {
				return Run{}, err
			}
		}

		targets = e.adds.API
	}

	before, err := table.count(ctx)
	if err != nil {
		return Run{}, err
	}

	cfg := r.config(s, [][]byte{post("/events")})
	cfg.Targets = targets

	result, seen, err := r.drive(ctx, cfg, s, load.Run)
	if err != nil {
		return Run{}, err
	}

	after, err := table.count(ctx)
	if err != nil {
		return Run{}, err
	}

	run := runOf(result, seen)
	run.Sum = &SumCheck{Tally: result.Tally, Gained: after - before}

	return run, nil
}

// read sends GETs over one connection, so that the latency is that of the work and not of a queue.
func (e *eventful) read(ctx context.Context, r *runner, s scenario, t *eventTable, requests [][]byte) (Run, error) {
	p := e.reads[t]
	if p == nil {
		var err error
		if p, err = e.lab.Run(ctx, "serve", 1, t.url, nil); err != nil {
			return Run{}, err
		}

		e.reads[t] = p
	}

	cfg := r.config(s, requests)
	cfg.Targets, cfg.Connections = p.API, 1
	cfg.Duration = max(cfg.Duration/2, time.Second)

	result, seen, err := r.drive(ctx, cfg, s, load.Run)
	if err != nil {
		return Run{}, err
	}

	return runOf(result, seen), nil
}

// claims is how many of them one run measures.
const claims = 300

// claim measures what a worker's first statement costs.
func (*eventful) claim(ctx context.Context, t *eventTable) (Run, error) {
	took, err := t.claims(ctx, claims)
	if err != nil {
		return Run{}, err
	}

	latency := latencyOf(took)

	return Run{Summary: Summary{PerSecond: float64(time.Second) / max(took.Mean(), 1), Latency: latency}}, nil
}

// work lets workers work a backlog that is there when they start, and takes the time from the first event to the last.
func (e *eventful) work(ctx context.Context, s scenario) (run Run, err error) {
	table := &eventTable{url: e.url}
	if s.mysql {
		table = e.fresh
	}

	before, err := table.processed(ctx)
	if err != nil {
		return Run{}, err
	}

	if err := table.enqueue(ctx, e.backlog); err != nil {
		return Run{}, err
	}

	p, err := e.lab.Run(ctx, "work", s.processes, table.url, map[string]string{
		"WORKER_CONCURRENCY": strconv.Itoa(s.workers / s.processes),
	})
	if err != nil {
		return Run{}, err
	}

	defer func() { err = errors.Join(err, p.Stop(context.WithoutCancel(ctx))) }()

	took, err := untilWorked(ctx, p.Admin, e.backlog)
	if err != nil {
		return Run{}, err
	}

	after, err := table.processed(ctx)
	if err != nil {
		return Run{}, err
	}

	return Run{
		Summary: Summary{PerSecond: float64(e.backlog) / took.Seconds()},
		Sum:     &SumCheck{Tally: load.Tally{Acknowledged: int64(e.backlog)}, Gained: after - before},
	}, nil
}

// close stops what was started for the reads.
func (e *eventful) close(ctx context.Context) error {
	var all error

	for _, p := range e.reads {
		all = errors.Join(all, p.Stop(ctx))
	}

	if e.adds != nil {
		all = errors.Join(all, e.adds.Stop(ctx))
	}

	return all
}

func post(path string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n", path)
}

func get(path string) []byte { return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\n\r\n", path) }

// lookups are reads of events all over the table.
func lookups(highest int) [][]byte {
	const different = 5000

	requests := make([][]byte, different)
	for i := range requests {
		requests[i] = get(fmt.Sprintf("/events/%d", 1+rand.IntN(highest)))
	}

	return requests
}
