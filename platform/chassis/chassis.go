package chassis

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// Settings describes a service's needs of its database and its error answers.
type Settings struct {
	// Engines lists the supported engines; empty means PostgreSQL only.
	Engines []sqldb.Engine
	// Session sets session parameters, see sqldb.Settings.
	Session map[string]string
	// Lock names what the service locks, for its metrics.
	Lock contention.Settings
	// Migrations creates the service's schema.
	Migrations migrate.Source
	// Check, if not nil, inspects the migrated database before anything is served. An error refuses the start.
	Check func(ctx context.Context, db *sqldb.DB) error
	// Errors translate the service's errors into problems; each returns nil for other errors. The database's errors are
	// translated already.
	Errors []func(error) *problem.Error
	// MaxLasting limits concurrent long requests, see httpserver.Config.
	MaxLasting int
	// Right returns the right that a route needs, see httpserver.Deps.
	Right func(method, route string) auth.Right
	// WriteError writes the error answers of the API listeners; nil selects problem+json.
	WriteError httpserver.ErrorWriter
}

// Chassis holds the parts of one replica. Service.New builds it, Run starts it.
type Chassis struct {
	name      string
	config    any // the service's configuration, a pointer to a struct
	common    config.Common
	settings  Settings
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	lock      *contention.Metrics
	share     *contention.Share
	db        *sqldb.DB
	readiness *httpserver.Readiness
	admin     *httpserver.Admin
	callers   *auth.Metrics
	guard     *auth.Guard // nil: AUTH is off, or nothing is served
	servers   []*httpserver.Server
	parts     []lifecycle.Part
}

// horizonEvery is the interval at which the metric of the database's oldest transaction is read.
const horizonEvery = time.Minute

// open creates the parts that every service has. It opens no connections.
func (c *Chassis) open(ctx context.Context, p Process) (err error) {
	c.telemetry, err = telemetry.New(ctx, telemetry.Config{
		Service: c.name, Version: lifecycle.Version(), LogLevel: c.common.LogLevel, LogFormat: c.common.LogFormat,
		Output: p.Output, Environ: p.Environ, CaptureGlobals: p.CaptureGlobals,
	})
	if err != nil {
		return err
	}

	// An error from here on must stop the exporter.
	c.log = c.telemetry.Logger()
	registry := c.telemetry.Registry()
	c.lock = contention.New(registry, c.settings.Lock)
	c.callers = auth.NewMetrics(registry)
	c.share = contention.NewShare(c.common.MaxInFlight, c.lock)
	c.db, err = sqldb.Open(ctx, sqldb.Settings{
		URL: c.common.DatabaseURL, Engines: c.settings.Engines, Pooler: sqldb.Pooler(c.common.DBPooler),
		Cluster:      sqldb.Cluster(c.common.DBCluster),
		MaxOpenConns: c.common.DBMaxOpenConns, LockTimeout: c.common.DBLockTimeout,
		StatementTimeout: c.common.DBStatementTimeout, ApplicationName: c.name, Session: c.settings.Session,
		Contention: c.lock, TracerProvider: c.telemetry.Tracing(),
	}, c.log, registry)
	if err != nil {
		return errors.Join(err, c.telemetry.Shutdown(ctx))
	}

	horizon := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rowlock_db_horizon_transactions",
		Help: "Transactions that PostgreSQL has begun since the oldest one that keeps row versions from being vacuumed.",
	})
	registry.MustRegister(horizon)
	horizon.Set(math.NaN()) // until it has been read
	c.Repeat("horizon", horizonEvery, horizonEvery, "the oldest transaction could not be read",
		func(ctx context.Context) error {
			n, err := c.db.Horizon(ctx)
			if err == nil {
				horizon.Set(n)
			}
			return err
		})

	c.readiness = httpserver.NewReadiness(c.db.Ping, c.log)
	c.admin = httpserver.NewAdmin(httpserver.AdminConfig{
		Addr: c.common.AdminAddr, PProf: c.common.PProf, Gatherer: registry, Readiness: c.readiness,
	}, c.log)
	return nil
}

// Close closes the pool and stops tracing, for a caller that does not call Run.
func (c *Chassis) Close(ctx context.Context) error {
	return errors.Join(c.db.Close(), c.telemetry.Shutdown(ctx))
}

// DB returns the service's pool.
func (c *Chassis) DB() *sqldb.DB { return c.db }

// Ready reports whether the replica accepts requests and, if not, why. It returns what /readyz answers, for an API with
// its own health check.
func (c *Chassis) Ready() (ready bool, why string) { return c.readiness.Ready() }

// Telemetry returns the service's logger, registry and tracer.
func (c *Chassis) Telemetry() *telemetry.Telemetry { return c.telemetry }

// Operations returns the factory for spans of the service's operations; nil if tracing is off. A span counts an error
// as a fault if its answer has a status of 500 or more.
func (c *Chassis) Operations() *telemetry.Operations {
	if c.telemetry.Tracing() == nil {
		return nil
	}
	return telemetry.NewOperations(c.telemetry.TracerProvider(), c.name, c.describe)
}

// describe returns the code with which err is answered, and whether it is a fault of the service. It prefers the answer
// that the request of ctx has already received.
func (c *Chassis) describe(ctx context.Context, err error) (code string, fault bool) {
	p, _ := httpserver.ProblemOf(ctx, err)
	if p == nil {
		p, _ = errors.AsType[*problem.Error](err)
	}

	for _, translate := range c.translators() {
		if p == nil {
			p = translate(err)
		}
	}

	if p == nil {
		return problem.Internal.Code(), true
	}
	return p.Kind().Code(), p.Kind().Status() >= http.StatusInternalServerError
}

// translators returns the functions that turn errors into problems, the service's first.
func (c *Chassis) translators() []func(error) *problem.Error {
	return append(slices.Clip(c.settings.Errors), groupProblem, contention.Problem, sqldb.Problem)
}

// AddListener adds an API listener with the service's limits; Run starts it. name is its label in metrics and logs,
// such as "api". Register its routes before Run.
func (c *Chassis) AddListener(name, addr string, docs httpserver.Docs) (*httpserver.Server, error) {
	common := c.common
	if err := c.identify(); err != nil {
		return nil, err
	}

	docs.Version = lifecycle.Version()
	server := httpserver.New(httpserver.Config{
		Name: name, Addr: addr, MaxBody: int64(common.MaxBody), MaxInFlight: common.MaxInFlight,
		MaxLasting: c.settings.MaxLasting, RequestTimeout: common.RequestTimeout, IdleTimeout: common.IdleTimeout,
		MaxConnectionAge: common.MaxConnectionAge,
		ShutdownDelay:    common.ShutdownDelay,
		LogRequests:      common.LogRequests, Docs: docs,
	}, httpserver.Deps{
		Log: c.log, Registry: c.telemetry.Registry(), TracerProvider: c.telemetry.Tracing(),
		Propagator: c.telemetry.Propagator(),
		Guard:      c.guard, Right: c.settings.Right,
		Errors: c.translators(), WriteError: c.settings.WriteError,
	})
	c.servers = append(c.servers, server)
	return server, nil
}

// identify creates the guard for all listeners, once, if AUTH is token. The replica is not ready before the guard has
// the issuer's keys, so a wrong AUTH_ISSUER stops a rollout. It fails if the policy cannot be read.
func (c *Chassis) identify() (err error) {
	if c.guard != nil || c.common.Auth.Mode != config.AuthToken {
		return nil
	}
	c.guard, err = auth.New(c.name, c.common.Auth, c.callers, c.log)
	if err != nil {
		return err
	}

	c.readiness.Require(c.guard.HasKeys, "the keys of AUTH_ISSUER cannot be read")
	return nil
}

// GroupCommit returns the limits that the service's committers share. inFlight is the number of groups that each may
// have under way at once, longest the longest time that a change may be under way. The slots are in the schema; without
// a schema there are none. The options are passed to groupcommit.NewSlots.
func (c *Chassis) GroupCommit(
	schema string, inFlight int, longest time.Duration, options ...groupcommit.SlotOption,
) groupcommit.Limits {
	limits := groupcommit.Limits{
		DB: c.DB(), Queue: c.common.MaxInFlight, InFlight: inFlight,
		LockTimeout: c.common.DBLockTimeout, StatementTimeout: c.common.DBStatementTimeout,
		Timeout:    c.common.RequestTimeout,
		Contention: c.lock, Share: c.share,
		Registry: c.telemetry.Registry(), TracerProvider: c.telemetry.Tracing(),
	}

	if schema != "" {
		limits.Slots = groupcommit.NewSlots(limits.DB, schema, longest, options...)
		c.Add(lifecycle.Part{Name: "slots", Run: func(ctx context.Context) error { return limits.Slots.Run(ctx, c.log) }})
	}
	return limits
}

// Add adds parts of the service. Run starts them in this order, after the database and before the API listeners.
func (c *Chassis) Add(parts ...lifecycle.Part) { c.parts = append(c.parts, parts...) }

// Repeat adds a part that calls work at the interval, see lifecycle.Every. It logs an error of work as what failed; the
// next call tries again.
func (c *Chassis) Repeat(name string, first, interval time.Duration, failed string, work func(context.Context) error) {
	c.Add(lifecycle.Part{Name: name, Run: lifecycle.Every(first, interval, func(ctx context.Context) {
		err := work(ctx)
		if err != nil && ctx.Err() == nil { // else the replica is stopping
			c.log.WarnContext(ctx, failed, slog.Any("error", err)) //nolint:sloglint // each caller passes a literal
		}
	})})
}

// Run starts all parts, serves until ctx ends, and stops them in reverse order.
func (c *Chassis) Run(ctx context.Context) error {
	c.log.LogAttrs(ctx, slog.LevelInfo, "starting", config.Masked(c.config)...)
	return lifecycle.Run(ctx, c.log, c.common.StopTimeout(), c.order()...)
}

// Addr returns the address of the named API listener; nil if there is none, or before Run has bound it.
func (c *Chassis) Addr(name string) net.Addr {
	for _, s := range c.servers {
		if s.Name() == name {
			return s.Addr()
		}
	}
	return nil
}

// AdminAddr returns the address of probes and metrics; nil before Run has bound it.
func (c *Chassis) AdminAddr() net.Addr { return c.admin.Addr() }
