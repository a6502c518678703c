package prove

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/pgbouncer"
)

// Service describes a service to prove, whose schema is made and migrated.
type Service struct {
	Name string
	// Path is the binary.
	Path string
	// Worker is the command of the service's workers, "" where it has none.
	Worker string
	// Environ is the environment of the replicas. DATABASE_URL names the role that can only change rows.
	Environ map[string]string
	// Maria is the service's server where that is not PostgreSQL.
	Maria *fault.MariaDB
}

// environ returns the settings of all replicas. The timeouts are shorter than the
// defaults, so that a window of seconds sees them run out.
func environ() map[string]string {
	return map[string]string{
		"DB_LOCK_TIMEOUT": lockWait.String(), "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
		"SHUTDOWN_DELAY": "300ms", "LOCK_WAIT": lockWait.String(), "PROCESSOR_TIMEOUT": "1s", "MIGRATE_ON_START": "false",
		"IDEMPOTENCY_TTL": keyLife.String(), "CLEANUP_INTERVAL": "4s", "RECONCILE_AFTER": "500ms",
		"LOCK_TTL":     "500ms",                         // less than a replica is frozen
		"WORKER_BATCH": "10", "WORKER_CONCURRENCY": "4", // so that workers meet
	}
}

// LockTimeout returns DB_LOCK_TIMEOUT of all replicas.
func LockTimeout() time.Duration { return lockWait }

// subject is one service of the run.
type subject struct {
	*fault.Target

	service  Service
	kind     kind
	db       *sqldb.DB // the service's database, by an administrator
	balancer *local.Balancer
	http     *http.Client

	idle   float64 // goroutines of an idle replica, the most of any
	memory float64 // of the largest replica after the window without faults; 0 before

	// Of the window.
	environ  map[string]string // of the replicas, beside that of all windows
	clients  clients
	history  *history.History
	flips    []int
	recovery time.Duration
	attacked *victim // nil in windows without attackers
}

// prover holds the state of a run.
type prover struct {
	Setup

	injector *fault.Injector
	subjects []*subject
	begun    time.Time
	windows  int
	started  time.Duration  // the window, since the run began
	outages  []fault.Outage // of the window
}

// open opens everything that is there for the whole run.
func (p *prover) open(ctx context.Context) error {
	db, err := sqldb.Open(ctx, sqldb.Settings{
		URL: p.Admin, ApplicationName: "rowlock prove", LockTimeout: 10 * time.Second, StatementTimeout: time.Minute,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return errors.New("the administrator's URL of the database cannot be used") // err may repeat the password
	}
	p.injector = &fault.Injector{DB: db, Cluster: p.Cluster, Citus: p.Citus}
	if p.Server != nil {
		p.injector.Servers = []fault.Server{p.Server}
	}
	for _, service := range p.Services {
		s, err := p.newSubject(ctx, service)
		if err != nil {
			return errors.Join(err, p.close(ctx))
		}
		p.subjects = append(p.subjects, s)
	}
	return nil
}

func (p *prover) newSubject(ctx context.Context, service Service) (*subject, error) {
	u, err := url.Parse(service.Environ["DATABASE_URL"])
	if err != nil {
		return nil, errors.New("the service's URL cannot be read") // err may repeat the password
	}
	kind := kinds[service.Name]
	if p.Citus != nil {
		kind = kind.forCitus()
	}

	s := &subject{
		service: service, kind: kind, db: p.injector.DB, http: targets.HTTPClient(),
		Target: &fault.Target{Name: service.Name, Role: u.User.Username(), Maria: service.Maria, Writes: kind.writes},
	}
	switch {
	case s.Maria != nil:
		s.db = s.Maria.DB
		p.injector.Servers = append(p.injector.Servers, s.Maria.Server)
	case p.Cluster == nil: // a proxy leads to one server, also to a coordinator
		if s.Proxy, err = faultproxy.Start(u.Host, p.TLS); err != nil {
			return nil, err
		}
	}

	if kind.prepare != nil {
		if err := kind.prepare(ctx, s.db); err != nil {
			return nil, err
		}
	}
	s.balancer, err = local.NewBalancer(ctx, s.Name, 0)
	return s, err
}

// start starts the replicas of all services, through a pooler or not.
func (p *prover) start(ctx context.Context, pooled bool) (err error) {
	if pooled {
		var dsns []string
		for _, s := range p.subjects {
			if s.Maria == nil {
				dsns = append(dsns, s.service.Environ["DATABASE_URL"])
			}
		}
		const poolSize = 4
		if p.injector.Pooler, err = pgbouncer.Start(ctx, p.Path, poolSize, dsns...); err != nil {
			return err
		}
	}
	var group errgroup.Group
	for _, s := range p.subjects {
		group.Go(func() error { return p.startSubject(ctx, s) })
	}
	return group.Wait()
}

// workerProcesses are enough that workers of two processes meet.
const workerProcesses = 2

func (p *prover) startSubject(ctx context.Context, s *subject) (err error) {
	own := maps.Clone(s.service.Environ)
	maps.Copy(own, environ())
	own["MAX_IN_FLIGHT"] = strconv.Itoa(s.kind.slots())
	maps.Copy(own, s.environ)
	if s.Proxy != nil {
		own["DATABASE_URL"] = s.Proxy.DSN(s.service.Environ["DATABASE_URL"])
	}

	if p.injector.Pooler != nil && s.Proxy != nil {
		own["DB_POOLER"] = "transaction"
		if own["DATABASE_URL"], err = p.injector.Pooler.DSN(s.service.Environ["DATABASE_URL"]); err != nil {
			return err
		}
	}

	spec := local.Spec{Service: s.Name, Path: s.service.Path, Environ: own}
	if s.Replicas, err = local.Start(ctx, spec, p.Replicas); err != nil {
		return err
	}
	s.balancer.To(s.Replicas)
	if s.service.Worker != "" {
		spec.Service, spec.Command = s.Name+"-worker", s.service.Worker
		s.Workers, err = local.Start(ctx, spec, workerProcesses)
	}
	return err
}

// restart starts a service's replicas again with these settings beside those of all windows.
func (p *prover) restart(ctx context.Context, s *subject, environ map[string]string) error {
	s.environ = environ
	return errors.Join(s.stop(ctx), p.startSubject(ctx, s))
}

// stop ends the replicas, and the pooler if there is one.
func (p *prover) stop(ctx context.Context) error {
	var group errgroup.Group
	for _, s := range p.subjects {
		group.Go(func() error { return s.stop(ctx) })
	}
	err := group.Wait()
	if p.injector.Pooler != nil {
		err = errors.Join(err, p.injector.Pooler.Stop())
		p.injector.Pooler = nil
	}
	return err
}

// stop ends the replicas and the workers.
func (s *subject) stop(ctx context.Context) error {
	var group errgroup.Group
	for _, set := range []*local.Set{s.Replicas, s.Workers} {
		if set != nil {
			group.Go(func() error { return set.Stop(ctx) })
		}
	}
	s.balancer.To(nil)
	s.Replicas, s.Workers = nil, nil
	return group.Wait()
}

func (p *prover) close(ctx context.Context) error {
	err := p.stop(ctx)
	for _, s := range p.subjects {
		s.http.CloseIdleConnections()
		err = errors.Join(err, s.balancer.Stop(ctx))
		if s.Proxy != nil {
			s.Proxy.Close()
		}
	}
	return errors.Join(err, p.injector.DB.Close())
}

// readFlips returns how often each replica became unready unexpectedly.
func (s *subject) readFlips() (flips []int) {
	for _, one := range s.Replicas.Statuses() {
		flips = append(flips, one.Flips)
	}
	return flips
}

// metric returns the sum of a metric of the service's replicas, and the largest value. A
// replica that is dead has none.
func (s *subject) metric(ctx context.Context, name string) (sum, most float64) {
	for _, one := range s.Replicas.Statuses() {
		value, _ := local.Metric(ctx, one.Admin, name)
		sum, most = sum+value, max(most, value)
	}
	return sum, most
}

const (
	goroutines     = "go_goroutines"
	inFlight       = `http_server_requests_in_flight{server="api"}`
	residentMemory = "process_resident_memory_bytes"
	// leakSlack is how many more goroutines an idle replica may have after the run:
	// connections of the pool and the balancer that are still open.
	leakSlack = 25
	// growth is how much more memory a replica may have after the run than after the
	// window without faults.
	growth = 1.5
	// afterAttack is how many bytes a replica may have right after window hostile: Go gives memory back within minutes.
	afterAttack = 256 << 20
)

// leaks waits until the service is idle and checks what was left behind.
func (s *subject) leaks(ctx context.Context) []Check {
	s.http.CloseIdleConnections()
	limit := s.idle + leakSlack
	query := `SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND state NOT IN ('idle', 'disabled')`
	if s.Maria != nil {
		query = `SELECT count(*) FROM information_schema.processlist WHERE user = ? AND command <> 'Sleep'`
	}

	var now, running, memory float64
	var busy int
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; fault.Wait(ctx, 200*time.Millisecond) {
		_, now = s.metric(ctx, goroutines)
		_, running = s.metric(ctx, inFlight)
		_, memory = s.metric(ctx, residentMemory)
		err = s.db.GetContext(ctx, &busy, query, s.Role)
		if now <= limit && running == 0 && busy == 0 || time.Now().After(deadline) {
			break
		}
	}

	checks := []Check{
		check(s.Name+": goroutines", 0 < now && now <= limit, "%.0f before, %.0f after", s.idle, now),
		check(s.Name+": in flight", running == 0, "%.0f requests in a replica", running),
	}
	if s.memory > 0 {
		const mebi = 1 << 20
		most := growth * s.memory
		if s.attacked != nil {
			most = max(most, afterAttack)
		}
		checks = append(checks, check(s.Name+": memory", 0 < memory && memory <= most,
			"%.0f MiB without faults, %.0f MiB after all", s.memory/mebi, memory/mebi))
	}
	return append(checks, check(s.Name+": connections", err == nil && busy == 0, "%d not idle", busy))
}
