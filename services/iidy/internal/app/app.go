// Package app builds the iidy service. It is the only package that imports all others.
package app

import (
	"os"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
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

// Service describes the service: its command line and how to build a replica.
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
		Migrations: postgres.Migrations(), Session: sqldb.PlannedOnce(),
		Lock: contention.Settings{
			Lock: "item", Queued: true, Grouped: true, Reasons: []contention.Reason{contention.Lost, contention.TakenOver},
		},
		Errors:     []func(error) *problem.Error{httpapi.ProblemOf},
		WriteError: httpapi.WriteError,
	}
}

func build(c *chassis.Chassis, cfg Config) error {
	limits := c.GroupCommit(postgres.Migrations().Schema, cfg.CoalesceInFlight, cfg.BulkTimeout,
		groupcommit.Beside(postgres.Table))
	store := postgres.New(postgres.Options{
		Limits: limits, Metrics: metrics.New(c.Telemetry().Registry()), MaxOpenConns: cfg.DBMaxOpenConns,
		BulkTimeout: cfg.BulkTimeout, BulkInFlight: cfg.BulkInFlight,
	})
	files, err := spool.New(os.TempDir(), int64(cfg.SpoolMax), c.Telemetry().Registry())
	if err != nil {
		return err
	}
	c.Add(lifecycle.Part{Name: "group commit", Stop: store.Close})

	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock iidy", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	long := httpserver.Allowance{Timeout: cfg.BulkTimeout, Patience: cfg.RequestTimeout}
	httpapi.Register(server.Echo(), attempt.NewService(store, files), long, c.Operations())
	return nil
}
