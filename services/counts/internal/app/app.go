// Package app builds the counts service. It is the only package that imports all others.
package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/api"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/httpapi"
	"github.com/rowlock/rowlock/services/counts/internal/metrics"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// Service describes the service: its command line and how to build a replica.
func Service() chassis.Service[Config] {
	return chassis.Service[Config]{
		Name:     "counts",
		Summary:  "counters at very high frequency",
		Settings: settings,
		Build:    build,
	}
}

// longBodies limits the memory for incoming batches above 64 KiB. Each needs up to three times its size while it is
// processed.
const longBodies = 32 << 20

func settings(cfg Config) chassis.Settings {
	return chassis.Settings{
		Migrations: postgres.Migrations(), Session: sqldb.PlannedOnce(),
		Lock:       contention.Settings{Lock: "item", Grouped: true, Queued: true},
		Errors:     []func(error) *problem.Error{httpapi.ProblemOf},
		Right:      httpapi.Right,
		MaxLasting: max(longBodies/int(cfg.MaxBody), 1),
	}
}

func build(c *chassis.Chassis, cfg Config) error {
	limits := c.GroupCommit("counts", cfg.CoalesceInFlight, cfg.RequestTimeout, postgres.Slots())
	store := postgres.New(limits, cfg.KeyTTL)
	m := metrics.New(c.Telemetry().Registry())
	c.Add(lifecycle.Part{Name: "group commit", Stop: store.Close})
	c.Repeat("cleanup", cfg.CleanupInterval, cfg.CleanupInterval, "expired keys could not be deleted",
		func(ctx context.Context) error {
			return store.DeleteExpired(ctx, func(n int) { m.Deleted.Add(float64(n)) })
		})

	docs := httpserver.Docs{Title: "Rowlock counts", OpenAPI: api.OpenAPI}
	external, err := c.AddListener("api", cfg.HTTPAddr, docs)
	if err != nil {
		return err
	}
	internal := external
	if cfg.InternalHTTPAddr != "" {
		internal, err = c.AddListener("internal", cfg.InternalHTTPAddr, docs)
		if err != nil {
			return err
		}
	}

	service := &counting.Service{Repository: store, Replayed: m.Replays.Inc, Conflict: m.Conflicts.Inc}
	httpapi.Register(external.Echo(), internal.Echo(), service, c.Operations())
	return nil
}
