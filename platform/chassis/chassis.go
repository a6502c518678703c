package chassis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// Settings say which service this is.
type Settings struct {
	// Name is the name of the service and of its schema.
	Name string
	// Config is the service's whole configuration, a pointer to a struct; it is
	// logged at start with its secrets masked.
	Config any
	// Common is the part of Config that every service has.
	Common config.Common
	// Environ is the process's environment, by which tracing is configured.
	Environ map[string]string
	// Output gets the log; nil stands for standard error.
	Output io.Writer
	// CaptureGlobals is for main alone; see telemetry.Config.
	CaptureGlobals bool
	// Engines are those that the service knows: PostgreSQL alone when empty.
	Engines []sqldb.Engine
	// Session is that of sqldb.Settings.
	Session map[string]string
	// Lock is what the service locks, for its metrics.
	Lock contention.Settings
	// Migrations are the schema's.
	Migrations migrate.Source
	// Check, if there is one, looks at the migrated database before anything is
	// served; its error refuses the start.
	Check func(ctx context.Context, db *sqldb.DB) error
	// Errors translate errors into what the client is told; each returns nil
	// for an error that is not its own. The database's are translated already.
	Errors []func(error) *problem.Error
	// WriteError writes the error answers of the API listeners; nil stands for
	// problem+json.
	WriteError httpserver.ErrorWriter
}

// Chassis is one replica's common parts. Make it with New, add API listeners
// with Listen, start it with Run.
type Chassis struct {
	settings  Settings
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	lock      *contention.Metrics
	db        *sqldb.DB
	readiness *httpserver.Readiness
	admin     *httpserver.Admin
	servers   []listener
	parts     []lifecycle.Part
}

// listener is an API listener: an httpserver.Server, or one of httpold until the last service has left that.
type listener interface {
	Name() string
	Addr() net.Addr
	Listen(ctx context.Context) error
	Serve() error
	Shutdown(ctx context.Context) error
	Close() error
}

// New builds the parts. Nothing is started and nobody is connected to yet; it
// fails on a setting that cannot work. After an error of a later step call Close.
func New(ctx context.Context, s Settings) (*Chassis, error) {
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: s.Name, Version: lifecycle.Version(), LogLevel: s.Common.LogLevel, LogFormat: s.Common.LogFormat,
		Output: s.Output, Environ: s.Environ, CaptureGlobals: s.CaptureGlobals,
	})
	if err != nil {
		return nil, err
	}
	c := &Chassis{settings: s, telemetry: tel, log: tel.Logger()}
	if c.lock, err = contention.New(tel.Registry(), s.Lock); err != nil {
		return nil, errors.Join(err, tel.Shutdown(ctx))
	}
	settings := sqldb.Settings{
		URL: s.Common.DatabaseURL, Engines: s.Engines, Pooler: sqldb.Pooler(s.Common.DBPooler), MaxOpenConns: s.Common.DBMaxOpenConns,
		LockTimeout: s.Common.DBLockTimeout, StatementTimeout: s.Common.DBStatementTimeout, ApplicationName: s.Name,
		Session:    s.Session,
		Contention: c.lock, TracerProvider: tel.Tracing(),
	}
	if c.db, err = sqldb.Open(ctx, settings, c.log, tel.Registry()); err != nil {
		return nil, errors.Join(err, tel.Shutdown(ctx))
	}
	c.readiness = httpserver.NewReadiness(c.db.Ping)
	c.admin = httpserver.NewAdmin(httpserver.AdminConfig{
		Addr: s.Common.AdminAddr, PProf: s.Common.PProf, Gatherer: tel.Registry(), Readiness: c.readiness,
	}, c.log)
	return c, nil
}

// Close gives back what New opened, for a caller that does not come to Run.
func (c *Chassis) Close(ctx context.Context) error {
	return errors.Join(c.db.Close(), c.telemetry.Shutdown(ctx))
}

// DB is the service's pool.
func (c *Chassis) DB() *sqldb.DB { return c.db }

// Contention is where the service notes the waits for its lock and the conflicts. The
// statements that give up waiting are counted already.
func (c *Chassis) Contention() *contention.Metrics { return c.lock }

// Ready says whether the replica wants requests and, if not, why: what /readyz
// answers, for an API that has a health check of its own.
func (c *Chassis) Ready() (ready bool, why string) { return c.readiness.Ready() }

// Telemetry is the service's logger, registry and tracer.
func (c *Chassis) Telemetry() *telemetry.Telemetry { return c.telemetry }

// Operations makes the spans of what the service does; nil where tracing is off,
// and then a service's ports are used as they are. What is a fault in them is what
// is one in an answer: a status from 500 on.
func (c *Chassis) Operations() *telemetry.Operations {
	if !c.telemetry.TracingEnabled() {
		return nil
	}
	return telemetry.NewOperations(c.telemetry.TracerProvider(), c.settings.Name, c.describe)
}

// describe is what the client of ctx's request is told about err, or would be where
// there is none: its code, and whether it is no fault of the client's.
func (c *Chassis) describe(ctx context.Context, err error) (code string, fault bool) {
	p, ok := httpserver.ProblemOf(ctx, err)
	if !ok {
		p, ok = httpold.ProblemOf(ctx, err)
	}
	if !ok {
		p, ok = errors.AsType[*problem.Error](err)
	}
	for _, translate := range slices.Concat(c.settings.Errors, []func(error) *problem.Error{sqldb.Problem}) {
		if ok {
			break
		}
		p = translate(err)
		ok = p != nil
	}
	if !ok {
		return problem.Internal.Code(), true
	}
	return p.Kind().Code(), p.Kind().Status() >= http.StatusInternalServerError
}

// Listen adds an API listener with the service's limits. name is its label in
// metrics and logs, such as "api". Put its routes on it before Run.
func (c *Chassis) Listen(name, addr string, docs httpserver.Docs) (*httpserver.Server, error) {
	common := c.settings.Common
	server, err := httpserver.New(httpserver.Config{
		Name: name, Addr: addr, MaxBody: int64(common.MaxBody), MaxInFlight: common.MaxInFlight,
		RequestTimeout: common.RequestTimeout, ShutdownDelay: common.ShutdownDelay, LogRequests: common.LogRequests, Docs: docs,
	}, httpserver.Deps{
		Log: c.log, Registry: c.telemetry.Registry(),
		TracerProvider: c.telemetry.TracerProvider(), Propagator: c.telemetry.Propagator(), Tracing: c.telemetry.TracingEnabled(),
		Errors: append(c.settings.Errors, sqldb.Problem), WriteError: c.settings.WriteError,
	})
	if err != nil {
		return nil, fmt.Errorf("the %s listener: %w", name, err)
	}
	c.servers = append(c.servers, server)
	return server, nil
}

// Add adds parts of the service's own. Run starts them in this order, after the database and before the API listeners.
func (c *Chassis) Add(parts ...lifecycle.Part) { c.parts = append(c.parts, parts...) }

// ListenOld adds an API listener of httpold, for services that are not on httpserver yet: call Listen and register
// routes on its Echo instead (see /services/counts). name is its label in
// metrics and logs, such as "api". Put its routes on it before Run.
func (c *Chassis) ListenOld(name, addr string, docs httpserver.Docs) (*httpold.Server, error) {
	common := c.settings.Common
	server, err := httpold.New(httpold.Config{
		Name: name, Addr: addr, MaxBody: int64(common.MaxBody), MaxInFlight: common.MaxInFlight,
		RequestTimeout: common.RequestTimeout, ShutdownDelay: common.ShutdownDelay, LogRequests: common.LogRequests, Docs: docs,
	}, httpold.Deps{
		Log: c.log, Registry: c.telemetry.Registry(),
		TracerProvider: c.telemetry.TracerProvider(), Propagator: c.telemetry.Propagator(), Tracing: c.telemetry.TracingEnabled(),
		Errors: append(c.settings.Errors, sqldb.Problem), WriteError: c.settings.WriteError,
	})
	if err != nil {
		return nil, fmt.Errorf("the %s listener: %w", name, err)
	}
	c.servers = append(c.servers, server)
	return server, nil
}

// Run starts everything, the service's own parts between the database and the
// API listeners, serves until ctx ends, and stops in reverse.
func (c *Chassis) Run(ctx context.Context) error {
	c.log.LogAttrs(ctx, slog.LevelInfo, "starting", config.Masked(c.settings.Config)...)
	parts := slices.Concat([]lifecycle.Part{c.telemetryPart(), c.poolPart(), c.adminPart(), c.databasePart()}, c.parts)
	if len(c.servers) > 0 { // a worker has none
		parts = append(parts, c.listenersPart())
	}
	parts = append(parts, c.readinessPart())
	return lifecycle.Run(ctx, c.log, c.settings.Common.StopTimeout(), parts...)
}

// Addr returns the address of the API listener of this name; nil before Run has bound it, and when there is none.
func (c *Chassis) Addr(name string) net.Addr {
	for _, s := range c.servers {
		if s.Name() == name {
			return s.Addr()
		}
	}
	return nil
}

// AdminAddr is where probes and metrics are; nil before Run has come to it.
func (c *Chassis) AdminAddr() net.Addr { return c.admin.Addr() }
