package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrSchemaNewer is a schema with migrations that the binary does not know.
	// An older binary must not run on it.
	ErrSchemaNewer = errors.New("the schema is newer than this program")
	// ErrPending is a schema that lacks migrations which the binary needs.
	ErrPending = errors.New("the schema is older than this program")
)

// lookTimeout bounds whatever only looks: a network that swallows packets would
// hold the start for ever. A migration itself takes as long as it takes.
const lookTimeout = 5 * time.Second

// errSilent is a database that did not answer a look in time.
var errSilent = fmt.Errorf("the database did not answer within %s", lookTimeout)

const (
	historyExists = `SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p'))`
	schemaExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`
)

// pending compares the history with the files. It only reads.
func pending(ctx context.Context, conn *sql.Conn, d dialect, src Source) ([]migration, error) {
	known, err := src.migrations()
	if err != nil {
		return nil, err
	}
	applied, err := appliedVersions(ctx, conn, d, src)
	if err != nil {
		return nil, err
	}
	newest := known[len(known)-1].version
	for _, version := range applied {
		if version > newest {
			return nil, fmt.Errorf("schema %s: %w: it has version %d, the program knows up to %d; run the newer program",
				src.Schema, ErrSchemaNewer, version, newest)
		}
	}
	return slices.DeleteFunc(known, func(m migration) bool { return slices.Contains(applied, m.version) }), nil
}

// appliedVersions reads the history; a missing table is an empty one.
func appliedVersions(ctx context.Context, conn *sql.Conn, d dialect, src Source) (versions []int64, err error) {
	var exists bool
	query, args := d.historyExists(src)
	if err = conn.QueryRowContext(ctx, query, args...).Scan(&exists); err != nil {
		return nil, databaseError("look for the history of schema "+src.Schema, err)
	}
	if !exists {
		return nil, nil
	}
	//nolint:gosec // the name was checked: it holds letters, digits and underscores
	rows, err := conn.QueryContext(ctx, "SELECT version_id FROM "+d.history(src)+" WHERE is_applied AND version_id > 0")
	if err != nil {
		return nil, databaseError("read "+d.history(src), err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var version int64
		if err = rows.Scan(&version); err != nil {
			return nil, databaseError("read "+d.history(src), err)
		}
		versions = append(versions, version)
	}
	if err = rows.Err(); err != nil {
		return nil, databaseError("read "+d.history(src), err)
	}
	return versions, nil
}

// databaseError says what was tried, without the database's DETAIL.
func databaseError(what string, err error) error {
	if e := sqldb.Classify(err, false); e != nil {
		err = e
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Verify tells whether the schema is the one that the program needs: nil, or an
// error that is [ErrSchemaNewer] or [ErrPending], the latter naming the files.
// It only reads, and needs the right to read the history table.
func Verify(ctx context.Context, url string, src Source) (err error) {
	db, d, err := open(url, src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	missing, err := look(ctx, db, d, src)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("schema %s: %w: it lacks %s; run the program's command migrate, or set MIGRATE_ON_START=true",
			src.Schema, ErrPending, join(missing))
	}
	return nil
}

// look is pending on a connection of its own, within lookTimeout.
func look(ctx context.Context, db *sql.DB, d dialect, src Source) (missing []migration, err error) {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err = onConn(bounded, db, func(conn *sql.Conn) (err error) {
		missing, err = pending(bounded, conn, d, src)
		return err
	})
	return missing, silent(ctx, bounded, err)
}

// silent marks an error that is the end of bounded and not of ctx.
func silent(ctx, bounded context.Context, err error) error {
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// onConn runs f on one connection, on which no statement is sent twice.
func onConn(ctx context.Context, db *sql.DB, f func(conn *sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return databaseError("connect", err)
	}
	defer func() {
		if closeErr := conn.Close(); closeErr != nil && !errors.Is(closeErr, sql.ErrConnDone) {
			err = errors.Join(err, closeErr)
		}
	}()
	return f(conn)
}

// open checks the source and makes a pool for it.
func open(url string, src Source) (*sql.DB, dialect, error) {
	if err := src.check(); err != nil {
		return nil, dialect{}, err
	}
	d, err := dialectOf(url, src)
	if err != nil {
		return nil, dialect{}, err
	}
	connector, err := sqldb.Connector(url)
	if err != nil {
		return nil, dialect{}, err
	}
	db := sql.OpenDB(txConnector{connector, d.settings})
	// One for the lock, one for the work.
	const connections = 2
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, d, nil
}
