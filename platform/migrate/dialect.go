package migrate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pressly/goose/v3/database"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// dialect holds the statements that differ between database servers, for one source.
type dialect struct {
	goose database.Dialect
	// txSettings begin each transaction of a migration. A table change waits at most a second for its lock, because all
	// other users of the table queue behind it; a long migration is not cut off.
	txSettings string
	// history is the name of the history table. hasIndex and hasOldest select whether it has onceIndex and oldestColumn.
	history, hasIndex, hasOldest string
	// schemas creates what must exist before the first migration; "" if the URL's database suffices.
	schemas string
	// begin, if not empty, precedes tryLock. tryLock selects whether it took the lock, and unlock releases it.
	begin, tryLock, unlock string
	// holder selects the pid, role and application_name of the session that holds the lock, the last two "" if they are
	// not visible. It selects no row if the lock is free.
	holder string
}

const (
	historyTable = "goose_db_version"

	// onceIndex prevents a migration from being applied twice.
	onceIndex = "goose_db_version_once"

	// oldestColumn holds, in the row of version 0, the newest migration that a program must know to run on the schema.
	oldestColumn = "oldest_version"
)

// newDialect returns the statements for src. The URL must be for the engine of src.
func newDialect(url string, src Source) (dialect, error) {
	kind, err := sqldb.EngineOf(url, src.engine())
	if err != nil {
		return dialect{}, fmt.Errorf("the migrations of schema %s: %w", src.Schema, err)
	}
	if kind == sqldb.MySQL {
		return mysqlDialect(src), nil
	}
	return postgresDialect(src), nil
}

// postgresDialect uses SET LOCAL because there may be a pooler. The lock's key is part of its statement: a parameter
// would mean the extended protocol, whose unnamed portal keeps a snapshot, and CREATE INDEX CONCURRENTLY would wait for
// that.
func postgresDialect(src Source) dialect {
	const settings = `SET LOCAL lock_timeout = '1s';
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;`
	key := uint64(src.lockKey()) //nolint:gosec // any bits

	return dialect{
		goose:      database.DialectPostgres,
		txSettings: settings,
		history:    src.historySchema() + "." + historyTable,
		hasIndex:   fmt.Sprintf("SELECT to_regclass('%s.%s') IS NOT NULL", src.historySchema(), onceIndex),
		hasOldest: fmt.Sprintf("SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = to_regclass('%s.%s')"+
			" AND attname = '%s'", src.historySchema(), historyTable, oldestColumn),
		schemas: createSchema(src.Schema) + createSchema(src.historySchema()),
		begin:   "BEGIN ISOLATION LEVEL READ COMMITTED;" + settings,
		tryLock: fmt.Sprintf("SELECT pg_try_advisory_xact_lock(%d)", src.lockKey()),
		unlock:  "ROLLBACK",
		// These columns of another role's session are visible to every role. A bigint key is two oids in pg_locks.
		holder: fmt.Sprintf(`SELECT l.pid, coalesce(a.usename, ''), coalesce(a.application_name, '')
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %d AND l.objid = %d AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, key>>32, key&math.MaxUint32),
	}
}

// createSchema checks before it creates: CREATE SCHEMA IF NOT EXISTS needs the right to create even if the schema
// exists.
func createSchema(name string) string {
	return fmt.Sprintf("DO $$ BEGIN IF to_regnamespace('%[1]s') IS NULL THEN CREATE SCHEMA %[1]s; END IF; END $$;", name)
}

// mysqlDialect serves MySQL and MariaDB, where a schema is a database: the URL's. The history's name contains the
// source's schema, because other programs may keep a history in the same database. The settings stay with the
// connection, which is only used for migrations; waits for metadata locks have a separate variable. The lock is global
// to the server, so its name (at most 64 characters) contains the database's.
func mysqlDialect(src Source) dialect {
	history := src.Schema + "_" + historyTable
	key := uint64(src.lockKey()) //nolint:gosec // any bits
	lock := fmt.Sprintf("concat('rowlock ', left(sha2(concat(DATABASE(), ' %x'), 256), 40))", key)
	return dialect{
		goose: database.DialectMySQL,
		txSettings: "SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1" +
			" /*M! , max_statement_time = 0, idle_transaction_timeout = 0 */",
		history: history,
		hasIndex: fmt.Sprintf("SELECT count(*) > 0 FROM information_schema.statistics WHERE table_schema = DATABASE()"+
			" AND table_name = '%s' AND index_name = '%s'", history, onceIndex),
		hasOldest: fmt.Sprintf("SELECT count(*) > 0 FROM information_schema.columns WHERE table_schema = DATABASE()"+
			" AND table_name = '%s' AND column_name = '%s'", history, oldestColumn),
		tryLock: "SELECT coalesce(GET_LOCK(" + lock + ", 0), 0)",
		unlock:  "DO RELEASE_LOCK(" + lock + ")",
		// The user of another account's connection is visible with the PROCESS privilege.
		holder: "SELECT h.id, coalesce(p.user, ''), '' FROM (SELECT IS_USED_LOCK(" + lock + ") AS id) AS h" +
			" LEFT JOIN information_schema.processlist AS p ON p.id = h.id WHERE h.id IS NOT NULL",
	}
}

// store is goose's history table with onceIndex and oldestColumn. MySQL commits the table, these two and the first row
// (version 0) one after another, so a process may die in between.
type store struct {
	database.StoreExtender

	hasIndex, hasOldest string
	marks               map[int64]mark
}

// TableExists reports whether the table has its first row, which goose inserts last.
func (s store) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	exists, err := s.StoreExtender.TableExists(ctx, db)
	if err != nil || !exists {
		return false, err //nolint:wrapcheck // goose and its caller wrap it
	}
	_, err = s.GetLatestVersion(ctx, db)
	if errors.Is(err, database.ErrVersionNotFound) {
		return false, nil
	}
	return err == nil, err //nolint:wrapcheck // as above
}

// CreateVersionTable creates whatever is missing of the table, the index and the column. The table of an earlier
// release lacks the last two.
func (s store) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	exists, err := s.StoreExtender.TableExists(ctx, db)
	if err == nil && !exists {
		err = s.StoreExtender.CreateVersionTable(ctx, db)
	}

	for _, part := range []struct{ exists, create string }{
		{s.hasIndex, "CREATE UNIQUE INDEX " + onceIndex + " ON " + s.Tablename() + " (version_id)"},
		{s.hasOldest, "ALTER TABLE " + s.Tablename() + " ADD COLUMN " + oldestColumn + " bigint NOT NULL DEFAULT 0"},
	} {
		exists := false
		if err == nil {
			err = db.QueryRowContext(ctx, part.exists).Scan(&exists)
		}
		if err == nil && !exists {
			_, err = db.ExecContext(ctx, part.create)
		}
	}

	return err //nolint:wrapcheck // as above
}

// Insert records a migration and, with it, what its mark demands of programs.
func (s store) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	if err := s.StoreExtender.Insert(ctx, db, req); err != nil {
		return err //nolint:wrapcheck // as above
	}
	return s.raiseOldest(ctx, db, s.marks[req.Version].oldest)
}

// raiseOldest records that a program must know the migration version to run on the schema. It may run twice.
func (s store) raiseOldest(ctx context.Context, db database.DBTxConn, version int64) error {
	if version == 0 {
		return nil
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET %[2]s = %[3]d WHERE version_id = 0 AND %[2]s < %[3]d",
		s.Tablename(), oldestColumn, version))
	return err //nolint:wrapcheck // as above
}

// oldest returns the newest migration that a program must know to run on the schema; 0 if it need not know any, or if
// no release that marks its migrations has applied one yet.
func (s store) oldest(ctx context.Context, db database.DBTxConn) (version int64, err error) {
	exists := false
	err = db.QueryRowContext(ctx, s.hasOldest).Scan(&exists)
	if err == nil && exists {
		query := "SELECT " + oldestColumn + " FROM " + s.Tablename() + " WHERE version_id = 0"
		err = db.QueryRowContext(ctx, query).Scan(&version)
	}
	return version, err //nolint:wrapcheck // as above
}
