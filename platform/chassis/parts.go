package chassis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// order returns the replica's parts in their start order; they stop in reverse. Telemetry is first, to export the spans
// of all other stops. The pool's close precedes everything that can fail, because a part whose Start failed is not
// stopped. Readiness is last, so the replica is ready only while everything else runs.
func (c *Chassis) order() []lifecycle.Part {
	parts := slices.Concat([]lifecycle.Part{
		{Name: "telemetry", Stop: c.sendLastSpans},
		{Name: "database pool", Stop: func(context.Context) error { return c.db.Close() }},
		{
			Name: "admin listener", Start: c.admin.Listen,
			Run: func(context.Context) error { return c.admin.Serve() }, Stop: c.admin.Shutdown,
		},
		{Name: "database", Start: c.prepareDatabase},
	}, c.parts)

	if c.guard != nil {
		parts = append(parts, lifecycle.Part{
			Name: "callers", Start: c.guard.Start, Run: lifecycle.Every(auth.RefreshEvery, auth.RefreshEvery, c.guard.Refresh),
		})
	}
	if len(c.servers) > 0 { // a worker has none
		parts = append(parts, c.listenersPart())
	}

	return append(parts, lifecycle.Part{
		Name:  "readiness",
		Start: func(context.Context) error { c.readiness.Started(); return nil },
		Run:   c.readiness.Run,
		Stop:  func(context.Context) error { c.readiness.Drain(); return nil },
	})
}

// lastSpansWithin bounds the wait for a collector that is unavailable or slow.
const lastSpansWithin = 5 * time.Second

// lastSpansAtLeast is the time for the last spans when draining took all of its time: those spans say why. It fits into
// the second that lifecycle.Run leaves after that.
const lastSpansAtLeast = 600 * time.Millisecond

// sendLastSpans stops the exporter. Losing spans is no failure for a process that has answered all its requests.
func (c *Chassis) sendLastSpans(ctx context.Context) error {
	within := lastSpansWithin
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, max(time.Until(deadline), lastSpansAtLeast))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if err := c.telemetry.Shutdown(ctx); err != nil {
		c.log.WarnContext(ctx, "the last spans were not sent", slog.Any("error", err))
	}
	return nil
}

// listenersPart returns one part for all API listeners: they drain at the same time, so ShutdownDelay passes only once.
func (c *Chassis) listenersPart() lifecycle.Part {
	return lifecycle.Part{
		Name: "API listeners",
		Start: func(ctx context.Context) error {
			for _, s := range c.servers {
				if err := s.Listen(ctx); err != nil {
					return err // which ends the process
				}
			}
			return nil
		},
		Run: func(context.Context) error { return c.forServers((*httpserver.Server).Serve) },
		Stop: func(ctx context.Context) error {
			return c.forServers(func(s *httpserver.Server) error { return s.Shutdown(ctx) })
		},
	}
}

// forServers calls do for all API listeners concurrently and joins the errors.
func (c *Chassis) forServers(do func(*httpserver.Server) error) error {
	errs := make(chan error, len(c.servers))
	for _, s := range c.servers {
		go func() { errs <- do(s) }()
	}

	var all error
	for range c.servers {
		all = errors.Join(all, <-errs)
	}
	return all
}

// prepareDatabase waits for the database, refuses one that does not store UTF-8, and brings the schema up to date: it
// migrates, or with MIGRATE_ON_START=false waits until another process has. Then it checks the role's rights, and runs
// the service's check.
func (c *Chassis) prepareDatabase(ctx context.Context) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	if err := c.db.CheckEncoding(ctx); err != nil {
		return err
	}

	if err := c.prepareSchema(ctx); err != nil {
		return err
	}
	if err := c.db.CheckRights(ctx, c.settings.Migrations.Rights); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}

	if err := c.db.Warn(ctx); err != nil {
		return err
	}
	if c.settings.Check == nil {
		return nil
	}
	return c.settings.Check(ctx, c.db)
}

func (c *Chassis) prepareSchema(ctx context.Context) error {
	if !c.common.MigrateOnStart {
		return c.awaitSchema(ctx)
	}
	return migrate.Up(ctx, c.common.MigrationURL(), c.settings.Migrations, c.common.MigrateTimeout, c.log)
}

const (
	firstWait = 100 * time.Millisecond // doubles with each try
	lastWait  = 5 * time.Second        // longest wait for the database
	lastLook  = 2 * time.Second        // longest wait for the schema
)

// reach waits until the database answers or ctx ends: services and their database start in any order. It fails at once
// if the database refuses the connection (wrong password, unknown database, bad certificate).
func (c *Chassis) reach(ctx context.Context) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := c.db.Ping(ctx)
		if err == nil {
			return nil
		}
		if sqldb.Misconfigured(err) {
			return fmt.Errorf("DATABASE_URL does not fit the server, and waiting would not change that: %w", err)
		}

		var e *sqldb.Error
		if !errors.As(err, &e) || e.Reason != sqldb.Connection && e.Reason != sqldb.Overloaded {
			return err
		}

		c.log.WarnContext(ctx, "the database is unavailable, waiting for it", slog.Any("error", err))
		if !sqldb.Pause(ctx, wait) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// awaitSchema waits until another process has applied the migrations that the replica needs. After MIGRATE_TIMEOUT it
// returns the last [migrate.ErrPending].
func (c *Chassis) awaitSchema(ctx context.Context) error {
	within := c.common.MigrateTimeout
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	for wait := firstWait; ; wait = min(2*wait, lastLook) {
		err := migrate.Verify(ctx, c.common.DatabaseURL, c.settings.Migrations, c.log)
		if !errors.Is(err, migrate.ErrPending) {
			return err
		}

		if wait == firstWait {
			c.log.InfoContext(ctx, "the schema is older than this program, waiting until it is migrated",
				slog.String("schema", c.settings.Migrations.Schema), slog.String("within", within.String()))
		}
		if !sqldb.Pause(bounded, wait) {
			return errors.Join(ctx.Err(), fmt.Errorf("%w (after MIGRATE_TIMEOUT, %s)", err, within))
		}
		if err := c.reach(ctx); err != nil {
			return err
		}
	}
}
