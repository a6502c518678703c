package chassis

import (
	"context"
	"slices"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// OldService is for the services that do not use Service yet; it is what Program needs to know of a service whose configuration is C.
type OldService[C any] struct {
	// Name is the binary's name, Summary one line that says what it is for.
	Name, Summary string
	// Common returns the common part of the configuration.
	Common func(*C) config.Common
	// Migrations are the schema's.
	Migrations migrate.Source
	// MigrationsFor takes the place of Migrations where they depend on the
	// configuration, that is on the engine behind DATABASE_URL.
	MigrationsFor func(*C) migrate.Source
	// Serve runs a replica until ctx ends.
	Serve func(ctx context.Context, cfg *C, environ map[string]string) error
	// More are commands beside serve, migrate and version.
	More []lifecycle.Command
}

// Program is the command line that every service has: serve, migrate, version
// and --help, which prints the table of variables.
func (s OldService[C]) Program() lifecycle.Program {
	commands := slices.Concat([]lifecycle.Command{
		{Name: "serve", Help: "run a replica", Run: s.serve},
		{Name: "migrate", Help: "apply pending migrations and exit", Run: s.migrate},
	}, s.More)
	return lifecycle.Program{
		Name: s.Name, Summary: s.Summary, Config: func() any { return new(C) }, Commands: commands,
	}
}

func (s OldService[C]) serve(ctx context.Context, environ map[string]string) error {
	cfg := new(C)
	if err := config.Load(cfg, environ); err != nil {
		return err
	}
	return s.Serve(ctx, cfg, environ)
}

func (s OldService[C]) migrate(ctx context.Context, environ map[string]string) error {
	cfg := new(C)
	if err := config.Load(cfg, environ); err != nil {
		return err
	}
	common := s.Common(cfg)
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: s.Name, Version: lifecycle.Version(), LogLevel: common.LogLevel, LogFormat: common.LogFormat, CaptureGlobals: true,
	})
	if err != nil {
		return err
	}
	migrations := s.Migrations
	if s.MigrationsFor != nil {
		migrations = s.MigrationsFor(cfg)
	}
	return migrate.Up(ctx, common.MigrationURL(), migrations, tel.Logger())
}
