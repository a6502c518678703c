package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// dialect is what differs between the servers.
type dialect struct {
	goose goose.Dialect
	// settings begin each transaction of a migration.
	settings string
	// historyExists asks for the history table.
	historyExists func(src Source) (query string, args []any)
	// prepare makes what has to exist before the first migration.
	prepare func(ctx context.Context, conn *sql.Conn, src Source) error
	// once makes onceIndex.
	once func(ctx context.Context, conn *sql.Conn, table string) error
	// history is the name of the history table.
	history func(src Source) string
	// begin is sent before tryLock; "" where the lock needs no transaction.
	begin string
	// tryLock answers with one row of one boolean; unlock frees the lock.
	tryLock, unlock func(src Source) string
}

// dialectOf is that of the source, which must be the URL's too.
func dialectOf(url string, src Source) (dialect, error) {
	kind, err := sqldb.EngineOf(url)
	if err != nil || kind != src.engine() {
		return dialect{}, fmt.Errorf("the migrations of schema %s: %w", src.Schema, sqldb.WrongEngine(src.engine()))
	}
	if kind == sqldb.MySQL {
		return mysqlDialect(), nil
	}
	return postgresDialect(), nil
}

func postgresDialect() dialect {
	return dialect{
		goose:    goose.DialectPostgres,
		settings: txSettings,
		historyExists: func(src Source) (string, []any) {
			return historyExists, []any{src.historySchema(), historyTable}
		},
		prepare: createSchemas,
		once: func(ctx context.Context, conn *sql.Conn, table string) error {
			_, err := conn.ExecContext(ctx, "CREATE UNIQUE INDEX IF NOT EXISTS "+onceIndex+" ON "+table+" (version_id)")
			return err //nolint:wrapcheck // wrapped by the caller
		},
		history: Source.history,
		begin:   begin,
		tryLock: func(src Source) string {
			return "SELECT pg_try_advisory_xact_lock(" + strconv.FormatInt(src.lockKey(), 10) + ")"
		},
		unlock: func(Source) string { return rollback },
	}
}

const (
	mysqlHistoryExists = `SELECT EXISTS (
    SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?)`
	mysqlIndexExists = `SELECT EXISTS (
    SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? AND index_name = ?)`

	// mysqlSettings: a change of a table waits for a second at most (metadata locks have a variable of their own), and a long one is not
	// cut off. They stay with the connection, which serves nothing but migrations.
	mysqlSettings = `SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1 /*M! , max_statement_time = 0, idle_transaction_timeout = 0 */`
)

// mysqlDialect is that of MySQL and MariaDB, where a schema is a database: the
// URL's. It must be there, and the history lies in it, named after the schema.
//
// The lock is one of the session, on the connection that withLock keeps. There is
// no rollback of DDL: each statement of a migration must be one that may be run
// again (CREATE TABLE IF NOT EXISTS), and rows belong into a migration of their
// own, which is a transaction together with its line in the history.
func mysqlDialect() dialect {
	return dialect{
		goose:    goose.DialectMySQL,
		settings: mysqlSettings,
		historyExists: func(src Source) (string, []any) {
			return mysqlHistoryExists, []any{mysqlHistory(src)}
		},
		prepare: func(context.Context, *sql.Conn, Source) error { return nil },
		once:    mysqlOnce,
		history: mysqlHistory,
		tryLock: func(src Source) string { return "SELECT coalesce(GET_LOCK(" + mysqlLock(src) + ", 0), 0)" },
		unlock:  func(src Source) string { return "DO RELEASE_LOCK(" + mysqlLock(src) + ")" },
	}
}

// mysqlHistory names the history: other programs may keep theirs, goose's own
// included, in the same database.
func mysqlHistory(src Source) string { return src.Schema + "_" + historyTable }

// mysqlLock names the lock: it is one of the whole server, so the database is in
// it. A name may have 64 characters.
func mysqlLock(src Source) string {
	return fmt.Sprintf("concat('rowlock ', left(sha2(concat(DATABASE(), ' %x'), 256), 40))", uint64(src.lockKey())) //nolint:gosec // any bits
}

func mysqlOnce(ctx context.Context, conn *sql.Conn, table string) error {
	var exists bool
	if err := conn.QueryRowContext(ctx, mysqlIndexExists, table, onceIndex).Scan(&exists); err != nil || exists {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	_, err := conn.ExecContext(ctx, "CREATE UNIQUE INDEX "+onceIndex+" ON "+table+" (version_id)")
	return err //nolint:wrapcheck // as above
}
