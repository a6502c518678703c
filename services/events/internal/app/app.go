package app

import (
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
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
	return chassis.Settings{
		Engines: engines(), Migrations: migrations(cfg), Session: session(cfg), Check: check(cfg),
		Lock:   contention.Settings{Lock: "id", Grouped: true},
		Errors: []func(error) *problem.Error{httpapi.ProblemOf},
	}
}

func buildServer(c *chassis.Chassis, cfg Config) error {
	s, _, err := common(c, cfg)
	if err != nil {
		return err
	}
	server, err := c.AddListener("api", cfg.HTTPAddr, httpserver.Docs{Title: "Rowlock events", OpenAPI: api.OpenAPI})
	if err != nil {
		return err
	}
	httpapi.Register(server.Echo(), event.NewService(s, event.RandomWord), c.Operations())
	return nil
}

func buildWorker(c *chassis.Chassis, cfg Config) error {
	s, m, err := common(c, cfg)
	if err != nil {
		return err
	}
	w := worker.New(s, worker.Options{
		Batch: cfg.WorkerBatch, Concurrency: cfg.WorkerConcurrency, Value: event.RandomWord, Operations: c.Operations(),
	}, m, c.Telemetry().Logger())
	c.Add(lifecycle.Part{Name: "worker", Run: w.Run})
	return nil
}

// common adds the parts that a server and a worker share: the store, its metrics, and the watch on the backlog.
//
//nolint:ireturn // one of two adapters
func common(c *chassis.Chassis, cfg Config) (store, *metrics.Metrics, error) {
	tel := c.Telemetry()
	m, err := metrics.New(tel.Registry())
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(cfg, c.GroupCommit(slotsIn(cfg), cfg.CoalesceInFlight, cfg.RequestTimeout))
	if err != nil {
		return nil, nil, err
	}

	watch := &watch{queue: s, metrics: m, log: tel.Logger()}
	c.Add(lifecycle.Part{Name: "backlog", Run: watch.run}, lifecycle.Part{Name: "group commit", Stop: s.Close})
	return s, m, nil
}
