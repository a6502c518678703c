package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/remote"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// proof prepares and runs the proof, for `rowlock prove` or `rowlock mutation-test`.
type proof struct {
	process

	options proveOptions
	windows []prove.Window
	remote  *remote.Server // nil: a private server
	// binaries replace the usual ones, by the service's name.
	binaries map[string]string
	enough   func(*prove.Report) bool
	maria    bool // run events on MariaDB too, where it is installed
}

// place says where a run's databases are.
type place struct {
	system prove.System
	schema func(local.Schema) local.Schema
	name   string // of a remote server
	notes  []string
	leave  []func() error // remove what the run has made, the last one first
}

// run prepares the services in databases of the run, runs the windows and removes
// everything. The report is nil when the run could not start.
func (v proof) run(ctx context.Context) (report *prove.Report, err error) {
	at := &place{schema: func(s local.Schema) local.Schema { return s }}
	at.system.Replicas, at.system.Path = v.options.replicas, v.environ["PATH"]
	defer func() {
		for _, leave := range slices.Backward(at.leave) {
			err = errors.Join(err, leave())
		}
		if report != nil {
			report.Server, report.Notes = at.name, at.notes
		}
	}()
	if v.remote != nil {
		err = v.onRemote(ctx, at)
	} else {
		err = v.onPrivate(ctx, at)
	}
	for _, s := range v.options.services {
		if err == nil {
			err = v.prepare(ctx, s, at)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	return prove.Run(ctx, at.system, prove.Options{
		Seed: v.options.seed, Windows: v.windows, Clients: v.options.clients, Pictures: v.options.out, Enough: v.enough,
		Say: func(format string, args ...any) { say(v.stdout, format, args...) },
	})
}

// prepare makes a service's roles and tables.
func (v proof) prepare(ctx context.Context, s services.Service, at *place) (err error) {
	path := v.binaries[s.Name]
	if path == "" {
		if path, err = local.Binary(ctx, s.Name, v.stderr); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	environ := v.replicaEnviron()
	maps.Copy(environ, s.Environ)
	if err := local.Provision(ctx, path, at.system.Admin, at.schema(local.SchemaOf(s)), environ); err != nil {
		return err
	}
	prepared := prove.Service{Name: s.Name, Path: path, Worker: s.Worker, Environ: environ}
	at.system.Services = append(at.system.Services, prepared)
	if s.Name == services.Events && v.maria {
		err = v.onMariaDB(ctx, at, prepared)
	}
	if errors.Is(err, localmaria.ErrNotInstalled) {
		at.notes = append(at.notes, "no MariaDB server is installed: events run on PostgreSQL alone")
		return nil
	}
	return err
}

// replicaEnviron returns the environment of the replicas, without what names another
// server and without the administrator's name and password.
func (v proof) replicaEnviron() map[string]string {
	env := (&system{process: v.process}).replicaEnviron()
	maps.DeleteFunc(env, func(name, _ string) bool {
		return name == "DB_POOLER" || strings.HasSuffix(name, "DATABASE_URL") || strings.HasSuffix(name, "DATABASE_URI") ||
			strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "OTEL_")
	})
	return env
}

// onRemote makes the run's database on the server of --dsn.
func (v proof) onRemote(ctx context.Context, at *place) error {
	session, err := v.remote.Create(ctx)
	at.leave = append(at.leave, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return session.Drop(ctx)
	})
	at.system.Admin, at.system.TLS, at.schema, at.name = session.Admin(), v.remote.TLS(), session.Schema, v.remote.String()
	at.notes = append(session.Notes(), "window restart: only the owner of the server can restart it", "events on MariaDB")
	say(v.stdout, "On %s; the database and roles of this run are %s and %[2]s_...", at.name, session.Name())
	return err
}

// onPrivate starts a server for the run and makes the database there.
func (v proof) onPrivate(ctx context.Context, at *place) error {
	server, err := local.StartPostgres(ctx, database, localpg.Options{
		Parent: os.TempDir(), Environ: v.environ, Progress: v.stderr,
		Settings: map[string]string{"deadlock_timeout": "5ms"}, // shorter than the services wait for a lock
	})
	if err != nil {
		return err
	}
	at.system.Server, at.system.Admin = server, server.URL(database)
	at.leave = append(at.leave, func() error {
		stopping, cancel := stopContext(ctx, v.process)
		defer cancel()
		return server.Stop(stopping)
	})
	return nil
}

// openRemote checks that the server of --dsn can take the run.
func openRemote(ctx context.Context, p process, o proveOptions) (*remote.Server, error) {
	server, err := remote.Open(ctx, o.dsn, mostConnections(p.environ, o))
	if refusal, ok := errors.AsType[remote.RefusalError](err); ok {
		return nil, usageError{"prove: --dsn: " + refusal.Error()}
	}
	return server, err
}

// mostConnections returns how many connections a run may open at once: every pool full,
// and those of one more replica of each service, which starts while another one ends.
func mostConnections(environ map[string]string, o proveOptions) (n int) {
	const (
		ourselves = 8 // the prover's pool
		reserved  = 2 // of a pool, which a second pool has not
		workers   = 3
	)
	pool, err := strconv.Atoi(environ["DB_MAX_OPEN_CONNS"])
	if err != nil || pool < 1 {
		pool = 8
	}
	n = ourselves
	for _, s := range o.services {
		n += (o.replicas + 1) * pool
		if s.SecondPool {
			n += (o.replicas + 1) * (pool - reserved)
		}
		if s.Worker != "" {
			n += workers * pool
		}
	}
	return n
}

// onMariaDB starts a private MariaDB server with events' tables, and an account that can
// only change rows. s is events on PostgreSQL.
func (v proof) onMariaDB(ctx context.Context, at *place, s prove.Service) error {
	server, err := localmaria.Start(ctx, localmaria.Options{Parent: os.TempDir()})
	if err != nil {
		return err
	}
	at.leave = append(at.leave, server.Stop)
	settings := sqldb.Settings{URL: server.URL("mysql"), Engines: []sqldb.Engine{sqldb.MySQL}}
	db, err := sqldb.Open(ctx, settings, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	at.leave = append(at.leave, db.Close)

	const account = "events_app"
	password := rand.Text()
	s.Environ = maps.Clone(s.Environ)
	s.Environ["DATABASE_URL"] = server.URL(s.Name)
	err = errors.Join(
		local.Execute(ctx, db, `CREATE DATABASE `+s.Name), local.Migrate(ctx, s.Path, s.Environ),
		local.Execute(ctx, db, `CREATE USER '`+account+`'@'127.0.0.1' IDENTIFIED BY '`+password+`'`),
		local.Execute(ctx, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON `+s.Name+`.* TO '`+account+`'@'127.0.0.1'`))
	if err != nil {
		return fmt.Errorf("prepare MariaDB: %w", err)
	}
	u, err := url.Parse(server.URL(s.Name))
	if err != nil {
		return errors.New("the URL of MariaDB cannot be read") // err may quote the password
	}
	u.User = url.UserPassword(account, password)
	s.Environ["DATABASE_URL"] = u.String()
	s.Name, s.Maria = prove.EventsOnMariaDB, &fault.MariaDB{Server: server, DB: db}
	at.system.Services = append(at.system.Services, s)
	return nil
}
