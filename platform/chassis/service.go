package chassis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// Config is a service's configuration: a struct that embeds config.Common.
type Config interface {
	// Base returns the embedded Common, which provides this method.
	Base() config.Common
}

// Service describes a service whose configuration is C.
type Service[C Config] struct {
	// Name is the name of the binary and of the service in logs and spans.
	Name string
	// Summary says in one line what the service is for; --help prints it.
	Summary string
	// Settings returns the service's needs of its database and its error answers.
	Settings func(cfg C) Settings
	// Build adds the service's parts and listeners to a replica that is not running yet.
	Build func(c *Chassis, cfg C) error
	// Commands are the commands besides serve, migrate, healthcheck and version.
	Commands []lifecycle.Command
}

// Process is what a replica takes from its process.
type Process struct {
	// Environ is the environment; the OTEL_* variables are read from it.
	Environ map[string]string
	// Output receives the log; nil selects standard error.
	Output io.Writer
	// CaptureGlobals redirects the process-wide loggers to the replica's. Only one replica of a process may set it.
	CaptureGlobals bool
}

// Program returns the command line of the service: serve, migrate, healthcheck, version and --help, which prints the
// variables.
func (s Service[C]) Program() lifecycle.Program {
	return lifecycle.Program{
		Name: s.Name, Summary: s.Summary, Config: func() any { return new(C) },
		Commands: slices.Concat([]lifecycle.Command{
			s.Command("serve", "run a replica"),
			{Name: "migrate", Help: "apply pending migrations and exit", Run: s.migrate},
			{Name: "healthcheck", Help: "exit with status 0 if the replica at ADMIN_ADDR is ready", Run: s.healthcheck},
		}, s.Commands),
	}
}

// Command returns a command that runs a replica until its context ends.
func (s Service[C]) Command(name, help string) lifecycle.Command {
	return lifecycle.Command{Name: name, Help: help, Run: func(ctx context.Context, environ map[string]string) error {
		var cfg C
		if err := config.Load(&cfg, environ); err != nil {
			return err
		}
		tuneGC(environ)
		c, err := s.New(ctx, cfg, Process{Environ: environ, CaptureGlobals: true})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}}
}

// New builds a replica. It opens no connections and starts nothing. It fails if a setting cannot work.
func (s Service[C]) New(ctx context.Context, cfg C, p Process) (*Chassis, error) {
	settings, err := s.clustered(cfg)
	if err != nil {
		return nil, err
	}
	c := &Chassis{name: s.Name, config: &cfg, common: cfg.Base(), settings: settings}
	if err := c.open(ctx, p); err != nil {
		return nil, err
	}
	if err := s.Build(c, cfg); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// clustered returns the service's settings with DB_CLUSTER and DB_POOLER in them. It fails if the service does not
// support the cluster.
func (s Service[C]) clustered(cfg C) (Settings, error) {
	settings, cluster := s.Settings(cfg), sqldb.Cluster(cfg.Base().DBCluster)
	if cluster == sqldb.ClusterCitus && len(settings.Migrations.Distribution) == 0 {
		return settings, fmt.Errorf("DB_CLUSTER=%s: %s runs on a single primary only; leave DB_CLUSTER unset and give %s "+
			"a separate primary (docs/scaling.md)", cluster, s.Name, s.Name)
	}
	settings.Migrations.Cluster = cluster
	if cfg.Base().MigrateDatabaseURL == "" {
		settings.Migrations.Pooler = sqldb.Pooler(cfg.Base().DBPooler)
	}
	return settings, nil
}

func (s Service[C]) migrate(ctx context.Context, environ map[string]string) error {
	var cfg C
	if err := config.Load(&cfg, environ); err != nil {
		return err
	}

	common := cfg.Base()
	settings, err := s.clustered(cfg)
	if err != nil {
		return err
	}
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: s.Name, Version: lifecycle.Version(), LogLevel: common.LogLevel, LogFormat: common.LogFormat,
		CaptureGlobals: true,
	})
	if err != nil {
		return err
	}

	return migrate.Up(ctx, common.MigrationURL(), settings.Migrations, common.MigrateTimeout, tel.Logger())
}

// healthcheckTimeout bounds the wait for the answer of /readyz.
const healthcheckTimeout = 3 * time.Second

// healthcheck asks the replica that has the same environment for /readyz: an image has no other program that could. It
// returns an error if the replica is not ready or does not answer within three seconds. It cannot find a replica whose
// ADMIN_ADDR has port 0.
func (s Service[C]) healthcheck(ctx context.Context, environ map[string]string) error {
	var cfg C
	if err := config.Load(&cfg, environ); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	// An address without a host, such as :9090, is dialled on this machine.
	url := "http://" + cfg.Base().AdminAddr + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	// Unlike the default transport it uses no proxy.
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	why, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d: %s", url, resp.StatusCode, bytes.TrimSpace(why))
	}
	return err
}
