package app

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/api"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
	"github.com/rowlock/rowlock/services/iidy/internal/spool"
)

// Service describes the service: its command line, and how a replica is built.
func Service() chassis.Service[Config] {
	return chassis.Service[Config]{
		Name:     "iidy",
		Summary:  "attempt lists: is it done yet?",
		Settings: settings,
		Build:    build,
	}
}

func settings(Config) chassis.Settings {
	return chassis.Settings{
		Migrations: postgres.Migrations(), Session: postgres.Session(),
		Lock: contention.Settings{
			Lock: "item", Grouped: true, Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
		},
		Errors:     []func(error) *problem.Error{httpapi.ProblemOf, coalesce.Problem, bulkhead.Problem},
		WriteError: httpapi.WriteError,
	}
}

// cleanEvery is the interval at which a replica on Citus deletes expired slots.
const cleanEvery = time.Minute

// cleanup returns what deletes expired slots. A failure is logged and tried again at the next time.
func cleanup(store *postgres.Store, c *chassis.Chassis) func(context.Context) {
	return func(ctx context.Context) {
		if err := store.DeleteExpiredSlots(ctx); err != nil && ctx.Err() == nil { // else the replica is stopping
			c.Telemetry().Logger().WarnContext(ctx, "expired slots could not be deleted", slog.Any("error", err))
		}
	}
}

func build(c *chassis.Chassis, cfg Config) error {
	m, err := metrics.New(c.Telemetry().Registry())
	if err != nil {
		return err
	}
	store, err := postgres.New(c.DB(), postgres.Options{
		Limits: c.GroupLimits(cfg.CoalesceInFlight), Metrics: m, MaxOpenConns: cfg.DBMaxOpenConns,
		BulkTimeout: cfg.BulkTimeout, BulkInFlight: cfg.BulkInFlight,
	})
	if err != nil {
		return err
	}
	files, err := spool.New(os.TempDir(), int64(cfg.SpoolMax), c.Telemetry().Registry())
	if err != nil {
		return err
	}
	c.Add(lifecycle.Part{Name: "group commit", Stop: store.Close})
	if sqldb.Cluster(cfg.DBCluster) == sqldb.ClusterCitus {
		c.Add(lifecycle.Part{Name: "cleanup", Run: lifecycle.Every(cleanEvery, cleanEvery, cleanup(store, c))})
	}
	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock iidy", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	options := httpapi.Options{BulkTimeout: cfg.BulkTimeout, Patience: cfg.RequestTimeout}
	httpapi.Register(server.Echo(), attempt.NewService(store, files), options, c.Operations())
	return nil
}
