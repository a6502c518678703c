package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	pollInterval = 100 * time.Millisecond // between two tries for the lock
	firstRetry   = 100 * time.Millisecond // doubles with each failure
	lastRetry    = 2 * time.Second
	maxFailures  = 12 // together about 17 s of waiting

	// rollbackTimeout caps the end of the lock's transaction; closing the
	// connection does the same.
	rollbackTimeout = 2 * time.Second

	// onceIndex makes the history itself refuse a migration applied twice.
	onceIndex = "goose_db_version_once"
)

// errBusy is a lock that another process holds.
var errBusy = errors.New("another process applies the migrations")

// Up applies what is pending. Any number of processes may call it at once; each
// returns when the schema is complete, whoever completed it. With nothing
// pending it only reads. While another process works it waits as long as ctx
// lasts; a database that is away, and a table that stays locked, it tries again
// for some 17 seconds; one that takes connections and answers nothing, for a
// good minute. A migration that was cut off in the middle is rolled back by the
// server and applied by the next call.
//
// A schema newer than the program is [ErrSchemaNewer]. When ctx ends, in the
// middle of a migration too, the error is ctx.Err().
func Up(ctx context.Context, url string, src Source, log *slog.Logger) (err error) {
	db, d, err := open(url, src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	retry := firstRetry
	for failures := 0; ; {
		var missing []migration
		if missing, err = look(ctx, db, d, src); err == nil {
			if len(missing) == 0 {
				return nil
			}
			err = withLock(ctx, db, d, src, func() error { return apply(ctx, db, d, src, log) })
		}
		wait := pollInterval
		switch {
		case err == nil:
			continue // look once more: the history decides
		case calledOff(ctx, err):
			return errors.Join(ctx.Err(), err)
		case errors.Is(err, errBusy):
		case !passing(err) || failures == maxFailures:
			return err
		default:
			failures++
			wait, retry = retry, min(2*retry, lastRetry)
			log.WarnContext(ctx, "migrations are tried again", slog.String("schema", src.Schema), slog.Any("error", err))
		}
		if !pause(ctx, wait) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// passing tells an error that the next try may not meet. XX000 ("tuple
// concurrently updated") and 23505 on the history or on a system catalogue are
// what two processes do to each other after the lock was lost.
func passing(err error) bool {
	if errors.Is(err, errSilent) {
		return true
	}
	if sqldb.Misconfigured(err) {
		return false
	}
	e := sqldb.Classify(err, false)
	if e == nil {
		return false
	}
	switch e.Reason {
	case sqldb.Connection, sqldb.Overloaded, sqldb.Serialization, sqldb.Outdated, sqldb.LockTimeout:
		return true
	case sqldb.Constraint:
		return e.Constraint == onceIndex || strings.HasPrefix(e.Constraint, "pg_")
	case sqldb.Other, sqldb.Timeout, sqldb.Canceled, sqldb.Data:
	}
	return e.SQLState == "XX000"
}

// calledOff tells an error that is what the end of ctx did to a statement. The
// server says of a migration that was cancelled only that it was (57014).
func calledOff(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	e := sqldb.Classify(err, false)
	return e != nil && (e.Reason == sqldb.Timeout || e.Reason == sqldb.Canceled || e.Reason == sqldb.Connection)
}

// pause waits for about d; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// withLock runs f while a transaction of its own holds the advisory lock. That
// transaction must not keep a snapshot, or CREATE INDEX CONCURRENTLY in f would
// wait for it for ever. So the lock is tried, never waited for, and the key is
// part of the statement: a parameter would make it the extended protocol, whose
// unnamed portal keeps its snapshot until the next statement.
//
// It is no *sql.Tx, which ends with the context that it began with: this one
// has to be got within lookTimeout and to last as long as f.
func withLock(ctx context.Context, db *sql.DB, d dialect, src Source, f func() error) error {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := db.Conn(bounded)
	if err != nil {
		return silent(ctx, bounded, databaseError("connect", err))
	}
	if err = tryLock(bounded, conn, d, src); err != nil {
		err = silent(ctx, bounded, err)
	} else {
		err = f()
	}
	return errors.Join(err, unlock(ctx, conn, d.unlock(src), err))
}

// tryLock begins the transaction on conn and takes the lock, or returns errBusy.
func tryLock(ctx context.Context, conn *sql.Conn, d dialect, src Source) error {
	if d.begin != "" {
		if _, err := conn.ExecContext(ctx, d.begin); err != nil {
			return databaseError("begin the transaction that holds the lock", err)
		}
	}
	var locked bool
	if err := conn.QueryRowContext(ctx, d.tryLock(src)).Scan(&locked); err != nil {
		return databaseError("take the lock", err)
	}
	if !locked {
		return errBusy
	}
	return nil
}

// unlock ends the transaction, which changed nothing: what matters is that the
// lock is free. A connection on which that fails is closed, never kept. After
// another failure its own is no news.
func unlock(ctx context.Context, conn *sql.Conn, statement string, known error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, err := conn.ExecContext(bounded, statement)
	if err == nil {
		return conn.Close() //nolint:wrapcheck // it only gives the connection back
	}
	discarded := conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(discarded, driver.ErrBadConn) || errors.Is(discarded, sql.ErrConnDone) {
		discarded = nil // as it was meant
	}
	if known != nil {
		return discarded
	}
	return errors.Join(databaseError("free the lock", err), discarded)
}

// apply does the work of one process; the caller holds the lock.
func apply(ctx context.Context, db *sql.DB, d dialect, src Source, log *slog.Logger) error {
	// The previous holder may have done all of it between our look and our lock.
	missing, err := look(ctx, db, d, src)
	if err != nil || len(missing) == 0 {
		return err
	}
	err = onConn(ctx, db, func(conn *sql.Conn) error { return d.prepare(ctx, conn, src) })
	if err != nil {
		return err
	}
	folder, err := src.folder()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(d.goose, db, folder,
		goose.WithTableName(d.history(src)), goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return fmt.Errorf("read the migrations of schema %s: %w", src.Schema, err)
	}
	// Creates the history table.
	if _, err = provider.HasPending(ctx); err != nil {
		return databaseError("prepare the history of schema "+src.Schema, err)
	}
	err = onConn(ctx, db, func(conn *sql.Conn) error { return d.once(ctx, conn, d.history(src)) })
	if err != nil {
		return databaseError("prepare the history of schema "+src.Schema, err)
	}
	return run(ctx, provider, src, log)
}

// run applies the migrations and logs each.
func run(ctx context.Context, provider *goose.Provider, src Source, log *slog.Logger) error {
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
		err = databaseError("apply the migration "+partial.Failed.Source.Path, partial.Err)
	} else if err != nil {
		err = databaseError("apply the migrations of schema "+src.Schema, err)
	}
	for _, r := range results {
		log.InfoContext(ctx, "migration applied", slog.String("schema", src.Schema),
			slog.String("file", r.Source.Path), slog.Float64("ms", float64(r.Duration.Microseconds())/1000))
	}
	return err
}

// createSchemas looks before it creates: CREATE SCHEMA IF NOT EXISTS needs the
// right to create even when there is nothing to do.
func createSchemas(ctx context.Context, conn *sql.Conn, src Source) error {
	for _, name := range src.schemas() {
		var exists bool
		if err := conn.QueryRowContext(ctx, schemaExists, name).Scan(&exists); err != nil {
			return databaseError("look for schema "+name, err)
		}
		if exists {
			continue
		}
		if _, err := conn.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
			return databaseError("create schema "+name, err)
		}
	}
	return nil
}
