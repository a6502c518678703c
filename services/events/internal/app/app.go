package app

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
	"github.com/rowlock/rowlock/services/events/internal/worker"
)

const name = "events"

// Program is the service's command line.
func Program() lifecycle.Program {
	return chassis.Service[Config]{
		Name:          name,
		Summary:       "gapless ids and events worked exactly once, on PostgreSQL and on MySQL",
		Common:        func(c *Config) config.Common { return c.Common },
		MigrationsFor: func(c *Config) migrate.Source { return migrations(*c) },
		Serve: func(ctx context.Context, cfg *Config, environ map[string]string) error {
			return run(ctx, *cfg, environ, New)
		},
		More: []lifecycle.Command{{Name: "work", Help: "run a worker: no API, but probes and metrics", Run: work}},
	}.Program()
}

func work(ctx context.Context, environ map[string]string) error {
	var cfg Config
	if err := config.Load(&cfg, environ); err != nil {
		return err
	}
	return run(ctx, cfg, environ, NewWorker)
}

func run(ctx context.Context, cfg Config, environ map[string]string, build func(context.Context, Config, Process) (*App, error)) error {
	a, err := build(ctx, cfg, Process{Environ: environ, CaptureGlobals: true})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// Process is what a replica takes from the process that it runs in.
type Process struct {
	Environ        map[string]string // OTEL_* is read from it
	Output         io.Writer         // the log; nil stands for standard error
	CaptureGlobals bool              // see telemetry.Config; for main alone
}

// App is one replica of the service: one that serves, or one that works.
type App struct {
	chassis *chassis.Chassis
	api     *httpserver.Server // nil in a worker
	parts   []lifecycle.Part
}

// New puts a replica together that serves the API and works nothing. It connects
// to nobody yet.
func New(ctx context.Context, cfg Config, p Process) (*App, error) {
	return assemble(ctx, cfg, p, func(a *App, s store, _ *metrics.Metrics) (err error) {
		a.api, err = a.chassis.Listen("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock events", OpenAPI: api.OpenAPI})
		if err != nil {
			return err
		}
		var service event.API = event.NewService(s, event.RandomWord)
		if ops := a.chassis.Operations(); ops != nil {
			service = tracedAPI{ops, service}
		}
		httpapi.Register(a.api, service)
		return nil
	})
}

// NewWorker puts a worker together: it serves nothing but ADMIN_ADDR.
func NewWorker(ctx context.Context, cfg Config, p Process) (*App, error) {
	return assemble(ctx, cfg, p, func(a *App, s store, m *metrics.Metrics) error {
		var queue event.Queue = s
		if ops := a.chassis.Operations(); ops != nil {
			queue = tracedQueue{s, ops}
		}
		w := worker.New(queue, worker.Options{Batch: cfg.WorkerBatch, Concurrency: cfg.WorkerConcurrency, Value: event.RandomWord},
			m, a.chassis.Telemetry().Logger())
		a.parts = append(a.parts, lifecycle.Part{Name: "worker", Run: w.Run})
		return nil
	})
}

func assemble(ctx context.Context, cfg Config, p Process, add func(*App, store, *metrics.Metrics) error) (*App, error) {
	c, err := chassis.New(ctx, chassis.Settings{
		Name: name, Config: &cfg, Common: cfg.Common, Environ: p.Environ, Output: p.Output, CaptureGlobals: p.CaptureGlobals,
		Engines: engines(), Migrations: migrations(cfg), Check: check(cfg), Lock: contention.Settings{Lock: "id", Grouped: true},
		Errors: []func(error) *problem.Error{httpapi.Problem, coalesce.Problem},
	})
	if err != nil {
		return nil, err
	}
	a := &App{chassis: c}
	if err := a.fill(cfg, add); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return a, nil
}

// fill adds what a replica and a worker have in common, and then what they have not.
func (a *App) fill(cfg Config, add func(*App, store, *metrics.Metrics) error) error {
	tel := a.chassis.Telemetry()
	m, err := metrics.New(tel.Registry())
	if err != nil {
		return err
	}
	s, err := openStore(cfg, a.chassis.DB(), a.chassis.Contention(), tel)
	if err != nil {
		return err
	}
	watch := &watch{queue: s, metrics: m, log: tel.Logger()}
	a.parts = []lifecycle.Part{{Name: "backlog", Run: watch.run}, {Name: "group commit", Stop: s.Close}}
	return add(a, s, m)
}

// Run serves or works until ctx ends, then drains.
func (a *App) Run(ctx context.Context) error { return a.chassis.Run(ctx, a.parts...) }

// Addr is where the API listens; nil before Run has come to it, and in a worker.
func (a *App) Addr() net.Addr {
	if a.api == nil {
		return nil
	}
	return a.api.Addr()
}

// AdminAddr is where probes and metrics are.
func (a *App) AdminAddr() net.Addr { return a.chassis.AdminAddr() }
