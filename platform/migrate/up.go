package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	pollInterval = 100 * time.Millisecond // between two tries for the lock
	firstRetry   = 100 * time.Millisecond // doubles with each failure
	lastRetry    = 2 * time.Second
	maxFailures  = 12 // together about 17 s

	// onceIndex makes the history itself refuse a migration applied twice.
	onceIndex = "goose_db_version_once"
)

// errBusy is a lock that another process holds.
var errBusy = errors.New("another process applies the migrations")

// Up applies what is pending. Any number of processes may call it at once; each
// returns when the schema is complete, whoever completed it. With nothing
// pending it only reads. While another process works it waits as long as ctx
// lasts; a database that is away, and a table that stays locked, it tries again
// for some 17 seconds. A migration that was cut off in the middle is rolled
// back by the server and applied by the next call.
//
// A schema newer than the program is [ErrSchemaNewer].
func Up(ctx context.Context, url string, src Source, log *slog.Logger) (err error) {
	db, err := open(url, src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	retry := firstRetry
	for failures := 0; ; {
		var missing []migration
		err = onConn(ctx, db, func(conn *sql.Conn) (err error) {
			missing, err = pending(ctx, conn, src)
			return err
		})
		if err == nil && len(missing) == 0 {
			return nil
		}
		if err == nil {
			err = withLock(ctx, db, src, func() error { return apply(ctx, db, src, log) })
		}
		wait := pollInterval
		switch {
		case err == nil:
			continue // look once more: the history decides
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
func withLock(ctx context.Context, db *sql.DB, src Source, f func() error) (err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return databaseError("begin the transaction that holds the lock", err)
	}
	defer func() {
		// It changed nothing; what matters is that the lock is free.
		if rbErr := tx.Rollback(); rbErr != nil && !errors.Is(rbErr, sql.ErrTxDone) && err == nil {
			err = databaseError("free the lock", rbErr)
		}
	}()
	var locked bool
	try := "SELECT pg_try_advisory_xact_lock(" + strconv.FormatInt(src.lockKey(), 10) + ")"
	if err = tx.QueryRowContext(ctx, try).Scan(&locked); err != nil {
		return databaseError("take the lock", err)
	}
	if !locked {
		return errBusy
	}
	return f()
}

// apply does the work of one process; the caller holds the lock.
func apply(ctx context.Context, db *sql.DB, src Source, log *slog.Logger) error {
	var missing []migration
	err := onConn(ctx, db, func(conn *sql.Conn) (err error) {
		// The previous holder may have done all of it between our look and our lock.
		if missing, err = pending(ctx, conn, src); err != nil || len(missing) == 0 {
			return err
		}
		return createSchemas(ctx, conn, src)
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	folder, err := src.folder()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, folder,
		goose.WithTableName(src.history()), goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return fmt.Errorf("read the migrations of schema %s: %w", src.Schema, err)
	}
	// Creates the history table.
	if _, err = provider.HasPending(ctx); err != nil {
		return databaseError("prepare the history of schema "+src.Schema, err)
	}
	err = onConn(ctx, db, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "CREATE UNIQUE INDEX IF NOT EXISTS "+onceIndex+" ON "+src.history()+" (version_id)")
		return err //nolint:wrapcheck // wrapped below
	})
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
			slog.String("file", r.Source.Path), slog.Int64("ms", r.Duration.Milliseconds()))
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
