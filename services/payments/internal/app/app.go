// Package app builds the payments service. It is the only package that imports all others.
package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
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

// firstReconcile is the time from the start to the first search for claims that ran out, roughly.
const firstReconcile = 2 * time.Second

// Service describes the service: its command line and how to build a replica.
func Service() chassis.Service[Config] {
	return chassis.Service[Config]{
		Name:     name,
		Summary:  "ride payments that are charged once, however often they are sent",
		Settings: settings,
		Build:    build,
	}
}

func settings(Config) chassis.Settings {
	return chassis.Settings{
		Migrations: postgres.Migrations(), Session: sqldb.PlannedOnce(),
		Lock: contention.Settings{
			Lock: "key", Queued: true, Grouped: true,
			Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
		},
		Errors: []func(error) *problem.Error{httpapi.ProblemOf},
	}
}

func build(c *chassis.Chassis, cfg Config) error {
	if err := cfg.checkSecret(); err != nil {
		return err
	}
	tel := c.Telemetry()
	m := metrics.New(tel.Registry(), cfg.lease())
	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock payments", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}

	limits := c.GroupCommit("", 1, cfg.RequestTimeout) // without slots: a row tells who wrote it
	limits.Pipeline = groupcommit.NewPipeline()
	store := postgres.New(postgres.Options{Limits: limits, Encode: httpapi.Encode, LockWait: cfg.LockWait})

	ledger, err := openLedger(c, cfg)
	if err != nil {
		return err
	}
	// The locks of the ledger are not the service's, and not in the service's metrics.
	limits.DB, limits.Contention, limits.Share = ledger, nil, nil
	fingerprints := payment.NewFingerprints(cfg.FingerprintSecret, cfg.FingerprintSecretPrevious)
	simulator := processor.New(fingerprints, processor.Options{
		Latency: cfg.ProcessorLatency, LatencyMax: cfg.ProcessorLatencyMax, Timeout: cfg.ProcessorTimeout,
		Limits: limits, Operations: c.Operations(),
	})

	service := &payment.Service{
		Repository: store, Processor: simulator,
		Currencies: iso4217.Known(), Fingerprints: fingerprints, TTL: cfg.IdempotencyTTL,
		Lease: cfg.lease(), ReconcileAfter: cfg.ReconcileAfter,
		Claimed: m.Claimed, Settled: m.Settled, Replayed: m.Replays.Inc, Conflict: m.Conflicts.Inc,
	}

	u := &upkeep{service: service, store: store, metrics: m, retention: cfg.LedgerRetention, lease: cfg.lease()}
	c.Add(lifecycle.Part{Name: "processor", Stop: func(ctx context.Context) error {
		return errors.Join(simulator.Close(ctx), ledger.Close())
	}}, lifecycle.Part{Name: "group commit", Stop: store.Close})
	c.Repeat("cleanup", time.Minute, cfg.CleanupInterval,
		"expired keys or settled entries of the ledger could not be deleted", u.clean)
	c.Repeat("reconcile", firstReconcile, cfg.ReconcileAfter, "open payments could not be settled or counted", u.reconcile)

	if cfg.FingerprintSecret == "" {
		tel.Logger().Warn("FINGERPRINT_SECRET is not set: a reader of the fingerprints can find the card numbers by trying")
	}
	httpapi.Register(server.Echo(), service, c.Operations())
	return nil
}

// openLedger opens the pool of the simulated processor. It stands for another company, so it must not wait for a
// connection of payments.
func openLedger(c *chassis.Chassis, cfg Config) (*sqldb.DB, error) {
	settings := sqldb.Settings{
		URL: cmp.Or(cfg.ProcessorDatabaseURL, cfg.DatabaseURL), Pooler: sqldb.Pooler(cfg.DBPooler),
		Name: "processor", MaxOpenConns: processor.LedgerConns,
		LockTimeout: cfg.DBLockTimeout, StatementTimeout: cfg.DBStatementTimeout, ApplicationName: name + "-processor",
		Session: sqldb.PlannedOnce(), TracerProvider: c.Telemetry().Tracing(),
	}
	return sqldb.Open(context.Background(), settings, c.Telemetry().Logger(), c.Telemetry().Registry())
}
