package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// eventsOnMariaDB starts a private MariaDB server with events' tables, and an account
// that can do no more than change rows.
func (v prover) eventsOnMariaDB(ctx context.Context, binary string) (s prove.Service, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "rowlock-prove-maria-")
	if err != nil {
		return s, nil, fmt.Errorf("make a folder for MariaDB: %w", err)
	}
	stop = func() error { return os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	// When root runs this, the server runs as somebody else, who must get through.
	if err = os.Chmod(dir, 0o711); err != nil {
		return s, nil, fmt.Errorf("open the folder for MariaDB: %w", err)
	}
	server, err := localmaria.Start(ctx, localmaria.Options{Dir: dir, Temporary: true})
	if err != nil {
		return s, nil, err
	}
	stop = func() error { return errors.Join(server.Kill(), os.RemoveAll(dir)) }

	const account = "events_app"
	password := rand.Text()
	r := &running{binary: binary, environ: map[string]string{"DATABASE_URL": server.URL(services.Events)}}
	r.service.Name = services.Events
	err = onMariaDB(ctx, server, `CREATE DATABASE `+services.Events)
	if err == nil {
		err = r.migrate(ctx)
	}
	if err == nil {
		err = onMariaDB(ctx, server, `CREATE USER '`+account+`'@'127.0.0.1' IDENTIFIED BY '`+password+`'`,
			`GRANT SELECT, INSERT, UPDATE, DELETE ON `+services.Events+`.* TO '`+account+`'@'127.0.0.1'`)
	}
	if err != nil {
		return s, nil, err
	}
	u, err := url.Parse(server.URL(services.Events))
	if err != nil {
		return s, nil, errors.New("the URL of MariaDB cannot be read") // the error may quote the password
	}
	u.User = url.UserPassword(account, password)
	return prove.Service{
		Name: prove.EventsOnMariaDB, Path: binary, Worker: "work", Environ: map[string]string{"DATABASE_URL": u.String()},
		Maria: server, MariaDatabase: services.Events,
	}, stop, nil
}

// onMariaDB runs statements as the administrator.
func onMariaDB(ctx context.Context, server *localmaria.Server, statements ...string) (err error) {
	connector, err := sqldb.Connector(server.URL("mysql"))
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to MariaDB: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return errors.New("prepare MariaDB: a statement failed") // it may hold the password
		}
	}
	return nil
}
