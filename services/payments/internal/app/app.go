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
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/api"
	"github.com/rowlock/rowlock/services/payments/internal/httpapi"
	"github.com/rowlock/rowlock/services/payments/internal/iso4217"
	"github.com/rowlock/rowlock/services/payments/internal/metrics"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
	"github.com/rowlock/rowlock/services/payments/internal/processor"
)

const name = "payments"

// Program is the service's command line.
func Program() lifecycle.Program {
	return chassis.OldService[Config]{
		Name:       name,
		Summary:    "ride payments that are charged once, however often they are sent",
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
	ledger  *sqldb.DB // the simulated processor's own
	api     *httpserver.Server
	cleaner *cleaner
}

// New puts a replica together. It connects to nobody yet.
func New(ctx context.Context, cfg Config, p Process) (*App, error) {
	c, err := chassis.New(ctx, chassis.Settings{
		Name: name, Config: &cfg, Common: cfg.Common, Environ: p.Environ, Output: p.Output, CaptureGlobals: p.CaptureGlobals,
		Migrations: postgres.Migrations(), Lock: contention.Settings{Lock: "key", Queued: true},
		Errors: []func(error) *problem.Error{httpapi.Problem},
	})
	if err != nil {
		return nil, err
	}
	a := &App{chassis: c}
	if err := a.assemble(ctx, cfg); err != nil {
		if a.ledger != nil {
			err = errors.Join(err, a.ledger.Close())
		}
		return nil, errors.Join(err, c.Close(ctx))
	}
	return a, nil
}

func (a *App) assemble(ctx context.Context, cfg Config) (err error) {
	tel := a.chassis.Telemetry()
	m, err := metrics.New(tel.Registry(), cfg.LockWait+cfg.ProcessorTimeout)
	if err != nil {
		return err
	}
	if a.ledger, err = a.openLedger(ctx, cfg); err != nil {
		return err
	}
	store := postgres.New(a.chassis.DB(), postgres.Options{
		Encode: httpapi.Encode, LockWait: cfg.LockWait, Transactions: cfg.transactions(), IdleTimeout: cfg.ProcessorTimeout + idleGrace,
		Contention: a.chassis.Contention(),
	}, m)
	fingerprints := payment.NewFingerprints(cfg.FingerprintSecret, cfg.FingerprintSecretPrevious)
	if cfg.FingerprintSecret == "" {
		tel.Logger().WarnContext(ctx, "FINGERPRINT_SECRET is not set: whoever reads the fingerprints can find the card numbers by trying")
	}
	if cfg.sharesPool() {
		tel.Logger().WarnContext(ctx,
			"PROCESSOR_DATABASE_URL is not set: behind one pooler, payments that hold all of its connections wait for one more")
	}
	ops := a.chassis.Operations()
	var charges payment.Processor = processor.New(a.ledger, fingerprints, processor.Options{
		Latency: cfg.ProcessorLatency, Timeout: cfg.ProcessorTimeout,
	})
	if ops != nil {
		charges = tracedProcessor{ops, charges}
	}
	service := payment.NewService(payment.Parts{
		Repository: store, Processor: charges,
		Currencies: iso4217.Known(), Fingerprints: fingerprints, Observer: m, TTL: cfg.IdempotencyTTL,
	})
	a.cleaner = &cleaner{store: store, metrics: m, log: tel.Logger(), interval: cfg.CleanupInterval, ttl: cfg.IdempotencyTTL}
	a.api, err = a.chassis.Listen("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock payments", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	if ops != nil {
		httpapi.Register(a.api, tracedPay{ops, service}, tracedLookup{ops, service})
		return nil
	}
	httpapi.Register(a.api, service, service)
	return nil
}

// openLedger opens the pool of the simulated processor. A payment that holds a
// connection of the service's pool must never wait for another of the same pool.
func (a *App) openLedger(ctx context.Context, cfg Config) (*sqldb.DB, error) {
	tel := a.chassis.Telemetry()
	settings := sqldb.Settings{
		URL: cfg.ledgerURL(), Pooler: sqldb.Pooler(cfg.DBPooler), Name: "processor", MaxOpenConns: cfg.transactions(),
		LockTimeout: cfg.DBLockTimeout, StatementTimeout: cfg.DBStatementTimeout, ApplicationName: name + "-processor",
		TracerProvider: tel.Tracing(),
	}
	return sqldb.Open(ctx, settings, tel.Logger(), tel.Registry())
}

// Run serves until ctx ends, then drains.
func (a *App) Run(ctx context.Context) error {
	a.chassis.Add(
		lifecycle.Part{Name: "processor", Stop: func(context.Context) error { return a.ledger.Close() }},
		lifecycle.Part{Name: "cleanup", Run: a.cleaner.run})
	return a.chassis.Run(ctx)
}

// Addr is where the API listens; nil before Run has come to it.
func (a *App) Addr() net.Addr { return a.api.Addr() }

// AdminAddr is where probes and metrics are.
func (a *App) AdminAddr() net.Addr { return a.chassis.AdminAddr() }
