package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/remote"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// proof is one run of the proof, by `rowlock prove` or `rowlock mutation-test`.
type proof struct {
	process

	options proveOptions
	windows []prove.Window
	remote  *remote.Server // nil: a private server
	// binaries replace the usual ones, by the service's name.
	binaries map[string]string
	enough   func(*prove.Report) bool
}

// place is where a run's database is.
type place struct {
	system prove.System
	schema func(local.Schema) local.Schema
	name   string
	notes  []string
	// leave removes what the run has made and names what it could not remove.
	leave func(ctx context.Context) (left []string, err error)
}

// run prepares the services in a database of the run, runs the windows and removes
// everything. The report is nil when the run could not start.
func (v proof) run(ctx context.Context) (report *prove.Report, err error) {
	at, err := v.place(ctx)
	defer func() {
		left, failed := at.leave(ctx)
		err = errors.Join(err, failed)
		if report != nil {
			report.Server, report.Notes, report.LeftBehind = at.name, at.notes, left
		}
	}()
	if err != nil {
		return nil, err
	}
	at.system.Replicas, at.system.Path = v.options.replicas, v.environ["PATH"]
	for _, s := range v.options.services {
		prepared, err := v.prepare(ctx, s, at)
		if err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		at.system.Services = append(at.system.Services, prepared)
		if s.Name == services.Events && v.remote == nil && v.binaries[s.Name] == "" {
			onMaria, stop, err := v.eventsOnMariaDB(ctx, prepared.Path)
			defer func() { err = errors.Join(err, stop()) }()
			switch {
			case errors.Is(err, localmaria.ErrNotInstalled):
				at.notes = append(at.notes, "no MariaDB server is installed: events run on PostgreSQL alone")
			case err != nil:
				return nil, fmt.Errorf("prove: %w", err)
			default:
				at.system.Services = append(at.system.Services, onMaria)
			}
		}
	}
	return prove.Run(ctx, at.system, prove.Options{
		Seed: v.options.seed, Windows: v.windows, Clients: v.options.clients, Pictures: v.options.out, Enough: v.enough,
		Say: func(format string, args ...any) { say(v.stdout, format, args...) },
	})
}

// prepare makes a service's roles and tables.
func (v proof) prepare(ctx context.Context, s services.Service, at *place) (prepared prove.Service, err error) {
	path := v.binaries[s.Name]
	if path == "" {
		if path, err = local.Binary(ctx, s.Name, v.stderr); err != nil {
			return prepared, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	environ := v.replicaEnviron()
	maps.Copy(environ, s.Environ)
	if err := local.Provision(ctx, path, at.system.Admin, at.schema(local.SchemaOf(s)), environ); err != nil {
		return prepared, err
	}
	return prove.Service{Name: s.Name, Path: path, Worker: s.Worker, Environ: environ}, nil
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

// place makes the run's database, on a private server or on that of --dsn. leave is to be
// called even after an error.
func (v proof) place(ctx context.Context) (*place, error) {
	if v.remote == nil {
		return v.privatePlace(ctx)
	}
	session, err := v.remote.Create(ctx)
	at := &place{
		system: prove.System{Admin: session.Admin(), TLS: v.remote.TLS()}, schema: session.Schema, name: v.remote.String(),
		notes: append(session.Notes(), "restart: only the owner of the server can restart it", "events on MariaDB"),
		leave: func(ctx context.Context) ([]string, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			return session.Drop(ctx)
		},
	}
	say(v.stdout, "On %s; the database and roles of this run are %s and %[2]s_...", at.name, session.Name())
	return at, err
}

func (v proof) privatePlace(ctx context.Context) (*place, error) {
	at := &place{
		schema: func(s local.Schema) local.Schema { return s },
		leave:  func(context.Context) ([]string, error) { return nil, nil },
	}
	server, stop, err := local.StartPostgres(ctx, "", database, localpg.Options{
		Environ: v.environ, Progress: v.stderr,
		Settings: map[string]string{"deadlock_timeout": "5ms"}, // shorter than the services wait for a lock
	})
	if err != nil {
		return at, fmt.Errorf("prove: %w", err)
	}
	at.system.Server, at.system.Admin = server, server.URL(database)
	at.leave = func(ctx context.Context) ([]string, error) {
		stopping, cancel := stopContext(ctx, v.process)
		defer cancel()
		return nil, stop(stopping)
	}
	return at, nil
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
		usual     = 8 // DB_MAX_OPEN_CONNS
		reserved  = 2 // of it, which a second pool has not
		processes = 2 // of workers
		ourselves = 8 // the prover's pool
	)
	pool, err := strconv.Atoi(environ["DB_MAX_OPEN_CONNS"])
	if err != nil || pool < 1 {
		pool = usual
	}
	n = ourselves
	for _, s := range o.services {
		of := pool
		if s.SecondPool {
			of += pool - reserved
		}
		n += (o.replicas + 1) * of
		if s.Worker != "" {
			n += (processes + 1) * pool
		}
	}
	return n
}

// eventsOnMariaDB starts a private MariaDB server with events' tables, and an account that
// can only change rows. stop is to be called even after an error.
func (v proof) eventsOnMariaDB(ctx context.Context, binary string) (s prove.Service, stop func() error, err error) {
	stop = func() error { return nil }
	server, kill, err := local.StartMariaDB(ctx, "")
	if err != nil {
		return s, stop, err
	}
	stop = kill
	db, err := sqldb.Open(ctx, sqldb.Settings{URL: server.URL("mysql"), Engines: []sqldb.Engine{sqldb.MySQL}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return s, stop, err
	}
	stop = func() error { return errors.Join(db.Close(), kill()) }

	const account = "events_app"
	password := rand.Text()
	environ := v.replicaEnviron()
	environ["DATABASE_URL"] = server.URL(services.Events)
	err = errors.Join(
		onMariaDB(ctx, db, `CREATE DATABASE `+services.Events),
		local.Migrate(ctx, binary, environ),
		onMariaDB(ctx, db, `CREATE USER '`+account+`'@'127.0.0.1' IDENTIFIED BY '`+password+`'`),
		onMariaDB(ctx, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON `+services.Events+`.* TO '`+account+`'@'127.0.0.1'`),
	)
	if err != nil {
		return s, stop, fmt.Errorf("prepare MariaDB: %w", err)
	}
	u, err := url.Parse(server.URL(services.Events))
	if err != nil {
		return s, stop, errors.New("the URL of MariaDB cannot be read") // err may quote the password
	}
	u.User = url.UserPassword(account, password)
	environ["DATABASE_URL"] = u.String()
	return prove.Service{
		Name: prove.EventsOnMariaDB, Path: binary, Worker: "work", Environ: environ, Maria: &fault.MariaDB{Server: server, DB: db},
	}, stop, nil
}

func onMariaDB(ctx context.Context, db *sqldb.DB, statement string) error {
	return db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, statement)
		return err //nolint:wrapcheck // Once classifies it
	})
}
