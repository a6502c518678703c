package app

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/api"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/httpapi"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

const name = "counts"

// Program is the service's command line.
func Program() lifecycle.Program {
	return chassis.OldService[Config]{
		Name:       name,
		Summary:    "counters at very high frequency",
		Common:     func(c *Config) config.Common { return c.Common },
		Migrations: postgres.Migrations(),
		Serve: func(ctx context.Context, cfg *Config, environ map[string]string) error {
			a, err := New(ctx, *cfg, Process{Environ: environ, CaptureGlobals: true})
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	}.Program()
}

// Process is what a replica takes from the process that it runs in.
type Process struct {
	Environ        map[string]string // OTEL_* is read from it
	Output         io.Writer         // the log; nil stands for standard error
	CaptureGlobals bool              // see telemetry.Config; for main alone
}

// App is one replica of the service.
type App struct {
	chassis  *chassis.Chassis
	store    *postgres.Store
	external *httpserver.Server
	internal *httpserver.Server // the same as external without INTERNAL_HTTP_ADDR
}

// New puts a replica together. It connects to nobody yet.
func New(ctx context.Context, cfg Config, p Process) (*App, error) {
	c, err := chassis.New(ctx, chassis.Settings{
		Name: name, Config: &cfg, Common: cfg.Common, Environ: p.Environ, Output: p.Output, CaptureGlobals: p.CaptureGlobals,
		Migrations: postgres.Migrations(), Lock: contention.Settings{Lock: "item", Grouped: true, Queued: true},
		Errors: []func(error) *problem.Error{httpapi.ProblemOf, coalesce.Problem, bulkhead.Problem},
	})
	if err != nil {
		return nil, err
	}
	a := &App{chassis: c}
	if err := a.assemble(cfg); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return a, nil
}

func (a *App) assemble(cfg Config) (err error) {
	a.store, err = postgres.New(a.chassis.DB(), postgres.Options{
		MaxOpenConns: cfg.DBMaxOpenConns, InFlight: cfg.CoalesceInFlight, Queue: cfg.MaxInFlight,
		LockTimeout: cfg.DBLockTimeout, StatementTimeout: cfg.DBStatementTimeout, Contention: a.chassis.Contention(),
		TracerProvider: a.chassis.Telemetry().Tracing(),
	}, a.chassis.Telemetry().Registry())
	if err != nil {
		return err
	}
	docs := httpserver.Docs{Title: "Rowlock counts", OpenAPI: api.OpenAPI}
	if a.external, err = a.chassis.Listen("api", cfg.HTTPAddr, docs); err != nil {
		return err
	}
	a.internal = a.external
	if cfg.InternalHTTPAddr != "" {
		if a.internal, err = a.chassis.Listen("internal", cfg.InternalHTTPAddr, docs); err != nil {
			return err
		}
	}
	httpapi.Register(a.external.Echo(), a.internal.Echo(), counting.NewService(a.store), a.chassis.Operations())
	return nil
}

// Run serves until ctx ends, then drains.
func (a *App) Run(ctx context.Context) error {
	a.chassis.Add(lifecycle.Part{Name: "group commit", Stop: a.store.Close})
	return a.chassis.Run(ctx)
}

// Addr is where the API listens; nil before Run has come to it.
func (a *App) Addr() net.Addr { return a.external.Addr() }

// InternalAddr is where the internal API listens.
func (a *App) InternalAddr() net.Addr { return a.internal.Addr() }

// AdminAddr is where probes and metrics are.
func (a *App) AdminAddr() net.Addr { return a.chassis.AdminAddr() }
