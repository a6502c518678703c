package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/lab/internal/otlp"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
)

// stopTimeout bounds the end of the replicas and the servers when a bench is over or was interrupted.
const stopTimeout = 30 * time.Second

// databaseName is that of the service on the private server.
const databaseName = "rowlock"

// Host says where a bench runs.
type Host struct {
	// Environ reaches the replicas. DATABASE_URL is not used: a bench fills what it gets.
	Environ map[string]string
	// Progress gets a line for each run, and the warnings and errors of the replicas.
	Progress io.Writer
	// Line gets the log lines of the replicas.
	Line func(replica string, line []byte)
	// Hurry is closed when what has not stopped by then is to be killed.
	Hurry <-chan struct{}
}

// system is the running system that a bench measures.
type system struct {
	fleet // the service's replicas

	host    Host
	service services.Service
	binary  string
	machine Machine
	// url is the database of the service, as the superuser; pgbench updates tables of its own there.
	url         string
	databasePID int
	pgbench     string // the program; empty without one

	postgres *localpg.Server
	maria    *localmaria.Server // nil until it is needed

	env map[string]string // of replicas

	sink    otlp.Receiver // receives the spans of traced replicas
	sinkURL string

	stops []func(context.Context) error
}

// fleet lists processes of the service by their addresses (host:port) and process ids, in one order.
type fleet struct {
	api, admin []string
	pids       []int
}

func fleetOf(set *local.Set) (f fleet) {
	for _, r := range set.Replicas() {
		status := r.Status()
		f.api, f.admin, f.pids = append(f.api, status.API), append(f.admin, status.Admin), append(f.pids, status.PID)
	}
	return f
}

// startSystem starts a private PostgreSQL server and n replicas of the service on it.
func startSystem(ctx context.Context, o Options, n int, h Host) (_ *system, err error) {
	s := &system{host: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(ctx))
		}
	}()
	chosen, err := services.Choose([]string{o.Service})
	if err != nil {
		return nil, err //nolint:wrapcheck // names the services
	}
	s.service = chosen[0]
	if s.binary, err = local.Binary(ctx, o.Service, h.Progress); err != nil {
		return nil, err //nolint:wrapcheck // names the service
	}
	if err := s.startPostgres(ctx); err != nil {
		return nil, err
	}
	// Without pgbench the bench still measures the service, without a baseline.
	if s.pgbench, err = pgbench.Find(s.postgres.BinDir()); err != nil {
		_, _ = fmt.Fprintln(h.Progress, err)
	}
	if s.machine, err = machine(ctx, s.url); err != nil {
		return nil, err
	}
	if err := s.provision(ctx); err != nil {
		return nil, err
	}
	if o.Trace {
		if err := s.receiveSpans(ctx); err != nil {
			return nil, err
		}
	}
	set, err := s.start(ctx, local.Spec{}, n)
	if err != nil {
		return nil, err
	}
	s.fleet = fleetOf(set)
	// The load waits for the answers to what it has sent, or for the end of the replicas that owe them.
	kill, cancel := s.hurried(context.WithoutCancel(ctx))
	unused := context.AfterFunc(kill, func() { _ = set.Stop(kill) })
	s.onStop(func(ctx context.Context) error {
		unused()
		cancel()
		return set.Stop(ctx)
	})
	return s, nil
}

// receiveSpans starts a receiver that counts spans.
func (s *system) receiveSpans(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("receive spans: %w", err)
	}
	server := &http.Server{Handler: &s.sink, ReadHeaderTimeout: stopTimeout}
	go func() { _ = server.Serve(listener) }() // until Close
	s.sinkURL = "http://" + listener.Addr().String()
	s.onStop(func(context.Context) error { return server.Close() })
	return nil
}

// startPostgres starts a server with PostgreSQL's own defaults on a disk: /tmp lies in memory on many systems, where a
// commit costs nothing and every figure is too good.
func (s *system) startPostgres(ctx context.Context) error {
	dir, err := diskFolder()
	if err != nil {
		return err
	}
	s.postgres, err = localpg.Start(ctx, localpg.Options{
		Dir: dir, Temporary: true, Environ: s.host.Environ, Progress: s.host.Progress,
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s.onStop(func(ctx context.Context) error {
		return errors.Join(s.postgres.Stop(ctx), localpg.Remove(context.WithoutCancel(ctx), dir))
	})
	s.url, s.databasePID = s.postgres.URL(databaseName), s.postgres.PID()
	return local.Database(ctx, s.postgres.URL("postgres"), databaseName) //nolint:wrapcheck // names the database
}

// diskFolder makes a folder for a server.
func diskFolder() (string, error) {
	parent := "/var/tmp"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "rowlock-bench-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the database: %w", err)
	}
	// When root runs this, the server runs as another user, who must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", errors.Join(fmt.Errorf("open the folder for the database: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// environ returns the environment of processes on a database of the private servers.
func (s *system) environ(url string) map[string]string {
	env := maps.Clone(s.service.Environ)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, s.host.Environ)
	for _, name := range []string{"INTERNAL_HTTP_ADDR", "DB_POOLER", "MIGRATE_DATABASE_URL"} {
		delete(env, name) // they would be about another server
	}
	env["DATABASE_URL"] = url
	return env
}

// provision makes roles and schema, runs the migrations as the owner, and leaves the replicas the role that can do no
// more than change rows.
func (s *system) provision(ctx context.Context) error {
	schema := local.SchemaOf(s.service)
	access, err := local.Prepare(ctx, s.url, schema)
	if err != nil {
		return err //nolint:wrapcheck // names the schema
	}
	if err := local.Migrate(ctx, s.binary, s.environ(access.Owner)); err != nil {
		return err //nolint:wrapcheck // names the program
	}
	s.env = s.environ(access.App)
	s.env["MIGRATE_ON_START"] = "false"
	return local.Grant(ctx, s.url, schema) //nolint:wrapcheck // names the schema
}

// start starts n processes of the service; the environment of the spec goes over that of all.
func (s *system) start(ctx context.Context, spec local.Spec, n int) (*local.Set, error) {
	env := maps.Clone(s.env)
	maps.Copy(env, spec.Environ)
	spec.Service, spec.Path, spec.Environ, spec.Line = s.service.Name, s.binary, env, s.host.Line
	return local.Start(ctx, spec, n) //nolint:wrapcheck // names the service
}

// database makes an empty, migrated database on a server of the engine. The error is [localmaria.ErrNotInstalled], by
// errors.Is, where there is no server of the kind.
func (s *system) database(ctx context.Context, engine, name string) (url string, err error) {
	if engine == services.PostgreSQL {
		url, err = s.postgres.URL(name), local.Database(ctx, s.postgres.URL("postgres"), name)
	} else {
		url, err = s.mariaDatabase(ctx, name)
	}
	if err != nil {
		return "", err
	}
	return url, local.Migrate(ctx, s.binary, s.environ(url)) //nolint:wrapcheck // names the program
}

// mariaDatabase starts MariaDB, with its own defaults and on a disk as PostgreSQL, when the first database is asked for.
func (s *system) mariaDatabase(ctx context.Context, name string) (string, error) {
	if s.maria == nil {
		dir, err := diskFolder()
		if err != nil {
			return "", err
		}
		server, err := localmaria.Start(ctx, localmaria.Options{Dir: dir, Temporary: true})
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		s.maria = server
		s.onStop(func(ctx context.Context) error { return errors.Join(server.Stop(ctx), os.RemoveAll(dir)) })
	}
	return s.maria.URL(name), execute(ctx, s.maria.URL("mysql"), "CREATE DATABASE "+name)
}

func (s *system) onStop(f func(context.Context) error) { s.stops = append(s.stops, f) }

// stop stops everything in reverse order, also after the end of ctx; a closed Hurry kills what is left.
func (s *system) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	ctx, cancelHurry := s.hurried(ctx)
	defer cancelHurry()
	var err error
	for len(s.stops) > 0 {
		last := len(s.stops) - 1
		err = errors.Join(err, s.stops[last](ctx))
		s.stops = s.stops[:last]
	}
	return err
}

// hurried returns a context that ends with ctx or when Hurry is closed.
func (s *system) hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.host.Hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
