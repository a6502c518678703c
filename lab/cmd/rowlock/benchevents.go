package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// eventsLab gives the bench of events databases on both engines, and processes on them.
type eventsLab struct {
	process

	binary   string
	postgres *localpg.Server
	maria    *localmaria.Server // nil until it is needed
}

var _ bench.EventsLab = (*eventsLab)(nil)

// Database implements bench.EventsLab.
func (l *eventsLab) Database(ctx context.Context, engine, name string) (url string, err error) {
	if engine == "mysql" {
		url, err = l.mariaDatabase(ctx, name)
	} else {
		url = l.postgres.URL(name)
		err = local.Database(ctx, l.postgres.URL("postgres"), name)
	}

	if err != nil {
		return "", err
	}

	migrator := &running{service: services.Service{Name: services.Events}, binary: l.binary, environ: l.environment(url, nil)}

	return url, migrator.migrate(ctx)
}

// mariaDatabase starts MariaDB, with its own defaults and on a disk as PostgreSQL, when the first database is asked for.
func (l *eventsLab) mariaDatabase(ctx context.Context, name string) (string, error) {
	if l.maria == nil {
		dir, err := benchFolder()
		if err != nil {
			return "", err
		}

		server, err := localmaria.Start(ctx, localmaria.Options{Dir: dir, Temporary: true})
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}

		l.maria = server
	}

	connector, err := sqldb.Connector(l.maria.URL("mysql"))
	if err != nil {
		return "", err
	}

	db := sql.OpenDB(connector)

	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, "CREATE DATABASE "+name)
		err = errors.Join(err, conn.Close())
	}

	if err = errors.Join(err, db.Close()); err != nil {
		return "", fmt.Errorf("make the database %s on MariaDB: %w", name, err)
	}

	return l.maria.URL(name), nil
}

// environment is that of processes of the service on a database.
func (l *eventsLab) environment(url string, variables map[string]string) map[string]string {
	env := (&system{process: l.process, server: l.postgres}).replicaEnviron()
	env["DATABASE_URL"] = url

	maps.Copy(env, variables)

	return env
}

// Run implements bench.EventsLab.
func (l *eventsLab) Run(ctx context.Context, command string, n int, url string, variables map[string]string) (*bench.Processes, error) {
	out := &console{out: l.stderr}

	set, err := local.Start(ctx, local.Spec{
		Service: "events-" + command, Path: l.binary, Args: []string{command}, NoAPI: command == "work",
		Environ: l.environment(url, variables),
		Line: func(replica string, line []byte) {
			// That the bench is the superuser of its own servers is no news.
			if text, ok := readable(line, false); ok && !strings.Contains(text, "unsafe database setting") {
				out.say("%s | %s", replica, text)
			}
		},
	}, n)
	if err != nil {
		return nil, err
	}

	p := &bench.Processes{Stop: set.Stop}

	for _, r := range set.Replicas() {
		status := r.Status()
		p.API, p.Admin = append(p.API, status.API), append(p.Admin, status.Admin)
	}

	return p, nil
}

// close removes what Database has started.
func (l *eventsLab) close(ctx context.Context) error {
	if l.maria == nil {
		return nil
	}

	return errors.Join(l.maria.Stop(ctx), os.RemoveAll(l.maria.Dir()))
}
