// Package app builds the events service. It is the only package that imports all others.
package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/httpapi"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
	"github.com/rowlock/rowlock/services/events/internal/worker"
)

// Service describes the service: its command line, and how to build a replica that serves the API and works no events.
func Service() chassis.Service[Config] {
	return chassis.Service[Config]{
		Name:     "events",
		Summary:  "gapless ids and events worked exactly once, on PostgreSQL and on MySQL",
		Settings: settings,
		Build:    buildServer,
		Commands: []lifecycle.Command{Worker().Command("work", "run a worker: no API, but probes and metrics")},
	}
}

// Worker describes a process that works events and serves only ADMIN_ADDR.
func Worker() chassis.Service[Config] {
	return chassis.Service[Config]{Name: "events", Settings: settings, Build: buildWorker}
}

func settings(cfg Config) chassis.Settings {
	db := databaseOf(cfg)
	return chassis.Settings{
		Engines: []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL}, Migrations: db.migrations, Session: db.session,
		Check:  db.check,
		Lock:   contention.Settings{Lock: "id", Grouped: true},
		Errors: []func(error) *problem.Error{httpapi.ProblemOf},
	}
}

func buildServer(c *chassis.Chassis, cfg Config) error {
	s, _ := common(c, cfg)
	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock events", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	httpapi.Register(server.Echo(), &event.Service{Repository: s, Value: event.RandomWord}, c.Operations())
	return nil
}

func buildWorker(c *chassis.Chassis, cfg Config) error {
	s, m := common(c, cfg)
	log := c.Telemetry().Logger()
	if n := cfg.Workers(); n < cfg.WorkerConcurrency {
		log.Info("DB_MAX_OPEN_CONNS allows fewer transactions at once than WORKER_CONCURRENCY", slog.Int("workers", n))
	}

	w := &worker.Worker{
		Queue: s, Observer: m, Log: log, Batch: cfg.WorkerBatch, Concurrency: cfg.Workers(),
		Value: event.RandomWord, Operations: c.Operations(),
	}
	c.Add(lifecycle.Part{Name: "worker", Run: w.Run})
	return nil
}

const watchInterval = 10 * time.Second

// common adds the parts that a server and a worker share: the store, its metrics, and the watch on the backlog.
func common(c *chassis.Chassis, cfg Config) (store, *metrics.Metrics) {
	db := databaseOf(cfg)
	s := db.open(c.GroupCommit(db.slots, cfg.CoalesceInFlight, cfg.RequestTimeout))

	m := metrics.New(c.Telemetry().Registry())
	// Every replica and every worker counts them, so that the metrics are right even when no worker is left.
	c.Repeat("backlog", time.Millisecond, watchInterval, "the pending events could not be counted",
		func(ctx context.Context) error {
			b, err := s.Backlog(ctx)
			m.Backlog(b, err)
			return err
		})
	c.Add(lifecycle.Part{Name: "group commit", Stop: s.Close})
	return s, m
}
