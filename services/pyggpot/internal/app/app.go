// Package app builds the pyggpot service. It is the only package that imports all others.
package app

import (
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/api"
	"github.com/rowlock/rowlock/services/pyggpot/internal/httpapi"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// Service describes the service: its command line and how to build a replica.
func Service() chassis.Service[Config] {
	return chassis.Service[Config]{
		Name:     "pyggpot",
		Summary:  "pots of coins that many replicas change, one change of a pot at a time",
		Settings: settings,
		Build:    build,
	}
}

func settings(Config) chassis.Settings {
	return chassis.Settings{
		Migrations: postgres.Migrations(), Session: sqldb.PlannedOnce(),
		Lock: contention.Settings{
			Lock: "pot", Grouped: true, Reasons: []contention.Reason{contention.Held, contention.Lost, contention.TakenOver},
		},
		Errors:     []func(error) *problem.Error{httpapi.ProblemOf},
		WriteError: httpapi.ErrorWriter(), Right: httpapi.Rights(),
	}
}

func build(c *chassis.Chassis, cfg Config) error {
	limits := c.GroupCommit(postgres.Migrations().Schema, cfg.CoalesceInFlight, cfg.RequestTimeout)
	store := postgres.New(limits, postgres.Options{
		TTL: cfg.LockTTL, Retries: cfg.LockRetries, RetryWait: cfg.LockRetryWait,
	})
	c.Add(lifecycle.Part{Name: "group commit", Stop: store.Close})

	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock pyggpot", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	server.AllowHTTP2()
	server.Stream(httpapi.Streams()...)
	return httpapi.Register(server.Echo(), &pot.Service{Repository: store}, httpapi.Options{
		MaxBody: int64(cfg.MaxBody), Ready: c.Ready, TracerProvider: c.Telemetry().Tracing(),
	}, c.Operations())
}
