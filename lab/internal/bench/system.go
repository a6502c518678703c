package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/otlp"
	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
)

// stopTimeout bounds the end of the replicas and the servers when a bench is over or was interrupted.
const stopTimeout = 30 * time.Second

// serverParent is on a disk: /tmp lies in memory on many systems, where a commit costs nothing and every figure is too
// good.
const serverParent = "/var/tmp"

// Host says where a bench runs.
type Host struct {
	// Environ reaches the replicas. DATABASE_URL is not used: a bench fills what it gets.
	Environ map[string]string
	// Progress gets a line for each run.
	Progress io.Writer
	// Line gets the log lines of the replicas.
	Line func(replica string, line []byte)
}

// system is the running system that a bench measures.
type system struct {
	fleet // the service's replicas

	host    Host
	service services.Service
	binary  string
	machine Machine
	environ map[string]string // of replicas
	// url is the database of the service, as the superuser; pgbench updates tables of its own there.
	url         string
	databasePID int
	pgbench     string // the program; empty without one
	postgres    *localpg.Server
	maria       *localmaria.Server // nil until it is needed
	sink        otlp.Receiver      // receives the spans of traced replicas
	sinkURL     string

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

// start starts a private PostgreSQL server, with PostgreSQL's own defaults, and n replicas of the service on it. stop
// is to be called even after an error.
func (s *system) start(ctx, hurry context.Context, o Options, n int) (err error) {
	chosen, err := services.Choose([]string{o.Service})
	if err != nil {
		return err
	}
	s.service = chosen[0]
	if s.binary, err = local.Binary(ctx, o.Service, s.host.Progress); err != nil {
		return err
	}
	postgres := localpg.Options{Environ: s.host.Environ, Progress: s.host.Progress}
	server, stop, err := local.StartPostgres(ctx, serverParent, o.Service, postgres)
	if err != nil {
		return err
	}
	s.onStop(stop)
	s.postgres, s.url, s.databasePID = server, server.URL(o.Service), server.PID()
	// Without pgbench the bench still measures the service, without a baseline.
	if s.pgbench, err = pgbench.Find(server.BinDir()); err != nil {
		_, _ = fmt.Fprintf(s.host.Progress, "%v: there are no baselines, so no ratios\n", err)
	}
	if s.machine, err = machine(ctx, s.url); err != nil {
		return err
	}
	s.environ = map[string]string{}
	maps.Copy(s.environ, s.service.Environ)
	maps.Copy(s.environ, s.host.Environ)
	for _, name := range []string{"INTERNAL_HTTP_ADDR", "DB_POOLER", "MIGRATE_DATABASE_URL"} {
		delete(s.environ, name) // they would be about another server
	}
	if err := local.Provision(ctx, s.binary, s.url, local.SchemaOf(s.service), s.environ); err != nil {
		return err
	}
	if err := s.receiveSpans(ctx); err != nil {
		return fmt.Errorf("receive spans: %w", err)
	}
	set, err := s.run(ctx, local.Spec{}, n)
	if err != nil {
		return err
	}
	s.fleet = fleetOf(set)
	s.onStop(set.Stop)
	// The load waits for the answers to what it has sent, or for the end of the replicas that owe them.
	unused := context.AfterFunc(hurry, func() { _ = set.Stop(hurry) })
	s.onStop(func(context.Context) error { unused(); return nil })
	return nil
}

// receiveSpans starts a receiver that counts spans.
func (s *system) receiveSpans(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err //nolint:wrapcheck // the caller does
	}
	server := &http.Server{Handler: &s.sink, ReadHeaderTimeout: stopTimeout}
	go func() { _ = server.Serve(listener) }() // until Close
	s.sinkURL = "http://" + listener.Addr().String()
	s.onStop(func(context.Context) error { return server.Close() })
	return nil
}

// run starts n processes of the service; the environment of the spec goes over that of all.
func (s *system) run(ctx context.Context, spec local.Spec, n int) (*local.Set, error) {
	environ := maps.Clone(s.environ)
	maps.Copy(environ, spec.Environ)
	spec.Service, spec.Path, spec.Environ, spec.Line = s.service.Name, s.binary, environ, s.host.Line
	return local.Start(ctx, spec, n)
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
	environ := maps.Clone(s.environ)
	environ["DATABASE_URL"] = url
	return url, local.Migrate(ctx, s.binary, environ)
}

// mariaDatabase starts MariaDB, with its own defaults, when the first database is asked for.
func (s *system) mariaDatabase(ctx context.Context, name string) (string, error) {
	if s.maria == nil {
		server, stop, err := local.StartMariaDB(ctx, serverParent)
		if err != nil {
			return "", err
		}
		s.maria = server
		s.onStop(func(context.Context) error { return stop() })
	}
	return s.maria.URL(name), execute(ctx, s.maria.URL("mysql"), "CREATE DATABASE "+name)
}

func (s *system) onStop(f func(context.Context) error) { s.stops = append(s.stops, f) }

// stop stops everything in reverse order, and kills what is left when hurry ends.
func (s *system) stop(hurry context.Context) (err error) {
	ctx, cancel := context.WithTimeout(hurry, stopTimeout)
	defer cancel()
	for _, stop := range slices.Backward(s.stops) {
		err = errors.Join(err, stop(ctx))
	}
	return err
}
