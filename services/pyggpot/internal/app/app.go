package app

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/pyggpot/api"
	"github.com/rowlock/rowlock/services/pyggpot/internal/httpapi"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

const name = "pyggpot"

// Program is the service's command line.
func Program() lifecycle.Program {
	return chassis.Service[Config]{
		Name:       name,
		Summary:    "pots of coins that many replicas change, one change of a pot at a time",
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
	chassis *chassis.Chassis
	api     *httpserver.Server
}

// lock is what a replica locks, and what can happen to it.
func lock() contention.Settings {
	return contention.Settings{
		Lock: "pot", Queued: true, Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
	}
}

// New puts a replica together. It connects to nobody yet.
func New(ctx context.Context, cfg Config, p Process) (*App, error) {
	c, err := chassis.New(ctx, chassis.Settings{
		Name: name, Config: &cfg, Common: cfg.Common, Environ: p.Environ, Output: p.Output, CaptureGlobals: p.CaptureGlobals,
		Migrations: postgres.Migrations(), Lock: lock(),
		Errors:     []func(error) *problem.Error{httpapi.Problem},
		WriteError: httpapi.ErrorWriter(),
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

func (a *App) assemble(cfg Config) error {
	tel := a.chassis.Telemetry()
	store := postgres.New(a.chassis.DB(), postgres.Options{
		TTL: cfg.LockTTL, Retries: cfg.LockRetries, RetryWait: cfg.LockRetryWait,
		QueueWait: cfg.DBStatementTimeout, Changes: cfg.DBMaxOpenConns - reservedConns,
		Contention: a.chassis.Contention(),
	})
	service := pot.NewService(store, func() pot.Source { return pot.NewSource() })
	var err error
	a.api, err = a.chassis.Listen("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock pyggpot", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	a.api.AllowHTTP2()
	options := httpapi.Options{MaxBody: int64(cfg.MaxBody), Ready: a.chassis.Ready, TracerProvider: tel.Tracing()}
	if ops := a.chassis.Operations(); ops != nil {
		return httpapi.Register(a.api, tracedPots{ops, service}, tracedCoins{ops, service}, options)
	}
	return httpapi.Register(a.api, service, service, options)
}

// Run serves until ctx ends, then drains.
func (a *App) Run(ctx context.Context) error { return a.chassis.Run(ctx) }

// Addr is where the API listens; nil before Run has come to it.
func (a *App) Addr() net.Addr { return a.api.Addr() }

// AdminAddr is where probes and metrics are.
func (a *App) AdminAddr() net.Addr { return a.chassis.AdminAddr() }
