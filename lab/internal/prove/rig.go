package prove

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/dbtest/pgbouncer"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Service is one that is to be proven, with its schema made and migrated.
type Service struct {
	Name string
	// Path is the binary.
	Path string
	// Worker is the command of the service's workers, "" where it has none.
	Worker string
	// Environ is that of the replicas; DATABASE_URL is the role that can do no
	// more than change rows.
	Environ map[string]string
	// Maria is the service's server where that is not PostgreSQL, and MariaDatabase the
	// database there.
	Maria         *localmaria.Server
	MariaDatabase string
}

// System is what a run breaks.
type System struct {
	// Admin is the URL of the services' database, for a role that may do everything
	// with it and with the services' roles.
	Admin string
	// Server is the server that the database is on, when it is ours alone. On nil,
	// somebody else's, whatever needs to own the server is left out.
	Server *localpg.Server
	// Name says which server that is, "" when it is ours, Notes what cannot be looked at
	// there, and Uncounted why it may not count a deadlock; all for the report.
	Name      string
	Notes     []string
	Uncounted string
	// TLS is how the proxies reach the server; nil: without.
	TLS      *tls.Config
	Services []Service
	// Replicas of each service.
	Replicas int
	// Path is where programs are looked for.
	Path string
	// Line gets the replicas' log lines; nil drops them.
	Line func(replica string, line []byte)
}

// timeouts are shorter than the defaults, so that a window of seconds sees them run out.
func timeouts() map[string]string {
	return map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
		"SHUTDOWN_DELAY": "300ms", "LOCK_WAIT": "1s", "PROCESSOR_TIMEOUT": "1s", "MIGRATE_ON_START": "false",
		"IDEMPOTENCY_TTL": keyLife.String(), "CLEANUP_INTERVAL": "4s", "LOCK_TTL": leaseLife.String(),
		// Workers that meet more often than usual.
		"WORKER_BATCH": "10", "WORKER_CONCURRENCY": "4",
	}
}

// leaseLife is how long pyggpot's lease lives: less than a replica is frozen.
const leaseLife = 700 * time.Millisecond

// column is one service in the rig.
type column struct {
	service  Service
	role     string            // that the replicas connect as
	proxy    *faultproxy.Proxy // nil with maria
	maria    *maria            // nil on PostgreSQL
	guest    bool              // on a PostgreSQL server that is somebody else's
	set      *local.Set
	workers  *local.Set // nil where there are none
	balancer *local.Balancer
	listener net.Listener
	caller   *Caller

	mu      sync.Mutex
	done    map[Action]int // what was done to it in this window
	holding *sql.Conn      // of the stranger, in a transaction
	held    Holding
}

// rig is everything that runs.
type rig struct {
	system  System
	admin   *sql.DB   // the administrator's, past proxies and poolers, for transactions of a stranger
	reader  *sqldb.DB // the same, for reading
	client  *http.Client
	columns []*column
	pooler  *pgbouncer.Pooler // nil but in a window that wants it

	// patience bounds what the administrator does to a service; twice of it is for undoing
	// everything. A server that has fallen silent is given up then.
	patience time.Duration

	mu      sync.Mutex
	stopped map[*local.Replica]bool
}

const (
	// readTimeout bounds a query, of the rows of a whole window.
	readTimeout = time.Minute
	// adminPatience is how long a server may take for what is done to a service.
	adminPatience = 10 * time.Second
)

func newRig(ctx context.Context, s System) (*rig, error) {
	connector, err := sqldb.Connector(s.Admin)
	if err != nil {
		return nil, errors.New("the server's URL cannot be read") // the error may quote the password
	}
	reader, err := sqldb.Open(ctx, sqldb.Settings{
		URL: s.Admin, ApplicationName: "rowlock prove", StatementTimeout: readTimeout,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	r := &rig{
		system: s, admin: sql.OpenDB(connector), reader: reader, client: &http.Client{Timeout: time.Second},
		stopped: map[*local.Replica]bool{}, patience: adminPatience,
	}
	for _, service := range s.Services {
		c, err := newColumn(ctx, s, service)
		if err != nil {
			return nil, errors.Join(err, r.close(ctx))
		}
		r.columns = append(r.columns, c)
	}
	if slices.ContainsFunc(s.Services, func(one Service) bool { return one.Name == serviceEvents }) {
		if err := r.execute(ctx, auditEvents()...); err != nil {
			return nil, errors.Join(err, r.close(ctx))
		}
	}
	return r, nil
}

func newColumn(ctx context.Context, sys System, s Service) (*column, error) {
	u, err := url.Parse(s.Environ["DATABASE_URL"])
	if err != nil {
		return nil, errors.New("the service's URL cannot be read")
	}
	c := &column{service: s, role: u.User.Username(), done: map[Action]int{}}
	if s.Maria != nil {
		c.maria, err = newMaria(ctx, s.Maria, s.MariaDatabase)
	} else {
		c.guest = sys.Server == nil
		c.proxy, err = faultproxy.Start(u.Host, sys.TLS)
	}
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	if c.listener, err = lc.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("the address of %s: %w", s.Name, err), c.disconnect())
	}
	c.balancer = local.NewBalancer(s.Name, c)
	go func() { _ = c.balancer.Serve(c.listener) }() // it ends by Shutdown
	c.caller = NewCaller(c.listener.Addr().String())
	return c, nil
}

// disconnect gives up the way to the database.
func (c *column) disconnect() error {
	if c.maria != nil {
		return c.maria.close()
	}
	c.proxy.Close()
	return nil
}

// Backends lists the replicas that take requests, for the balancer.
func (c *column) Backends() []local.Backend {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		return nil
	}
	return c.set.Backends()
}

// start runs the replicas of all services, through the pooler or not.
func (r *rig) start(ctx context.Context, pooled bool) error {
	if pooled {
		dsns := make([]string, 0, len(r.columns))
		for _, c := range r.columns {
			if c.maria == nil {
				dsns = append(dsns, c.service.Environ["DATABASE_URL"])
			}
		}
		const poolSize = 4
		var err error
		if r.pooler, err = pgbouncer.Start(ctx, r.system.Path, poolSize, dsns...); err != nil {
			return err
		}
	}
	errs := make([]error, len(r.columns))
	var wg sync.WaitGroup
	for i, c := range r.columns {
		wg.Go(func() { errs[i] = r.startColumn(ctx, c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// workerProcesses are enough that they meet.
const workerProcesses = 2

func (r *rig) startColumn(ctx context.Context, c *column) error {
	environ := maps.Clone(c.service.Environ)
	maps.Copy(environ, timeouts())
	if c.proxy != nil {
		environ["DATABASE_URL"] = c.proxy.DSN(c.service.Environ["DATABASE_URL"])
	}
	if r.pooler != nil && c.proxy != nil {
		through, err := r.pooler.DSN(c.service.Environ["DATABASE_URL"])
		if err != nil {
			return err
		}
		// The processor's ledger wants a pool of its own; see services/payments/README.md.
		environ["PROCESSOR_DATABASE_URL"] = environ["DATABASE_URL"] + "&binary_parameters=yes"
		environ["DATABASE_URL"], environ["DB_POOLER"] = through, "transaction"
	}
	spec := local.Spec{Service: c.service.Name, Path: c.service.Path, Environ: environ, Line: r.system.Line}
	set, err := local.Start(ctx, spec, r.system.Replicas)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.set = set
	c.mu.Unlock()
	if c.service.Worker == "" {
		return nil
	}
	spec.Service, spec.Args, spec.NoAPI = c.service.Name+"-worker", []string{c.service.Worker}, true
	workers, err := local.Start(ctx, spec, workerProcesses)
	c.mu.Lock()
	c.workers = workers
	c.mu.Unlock()
	return err
}

// stop ends the replicas, and the pooler if there is one.
func (r *rig) stop(ctx context.Context) error {
	errs := make([]error, len(r.columns))
	var wg sync.WaitGroup
	for i, c := range r.columns {
		c.mu.Lock()
		sets := []*local.Set{c.set, c.workers}
		c.set, c.workers = nil, nil
		c.mu.Unlock()
		wg.Go(func() {
			for _, set := range sets {
				if set != nil {
					errs[i] = errors.Join(errs[i], set.Stop(ctx))
				}
			}
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if r.pooler != nil {
		err = errors.Join(err, r.pooler.Stop())
		r.pooler = nil
	}
	return err
}

func (r *rig) close(ctx context.Context) error {
	err := r.stop(ctx)
	for _, c := range r.columns {
		c.caller.Close()
		err = errors.Join(err, c.balancer.Shutdown(ctx), c.disconnect())
	}
	return errors.Join(err, r.admin.Close(), r.reader.Close())
}

// metric is a figure that a replica tells, the sum where there are several by
// labels; 0 while it cannot be asked or does not tell it.
func (r *rig) metric(ctx context.Context, one *local.Replica, name string) float64 {
	sum, _ := r.series(ctx, one, name)
	return sum
}

// series is the same, and says whether /metrics shows any such series.
func (r *rig) series(ctx context.Context, one *local.Replica, name string) (sum float64, shown bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+one.Status().Admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, false
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, false
	}
	defer func() { _ = resp.Body.Close() }() // it was read or is of no use
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err == nil {
			sum, shown = sum+value, true
		}
	}
	return sum, shown
}
