package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrSchemaNewer means that a breaking migration needs a newer program.
	ErrSchemaNewer = errors.New("the schema is too new for this program")
	// ErrPending means that the schema lacks migrations that the program needs.
	ErrPending = errors.New("the schema is older than this program")
	// ErrCluster means that DB_CLUSTER does not fit the database.
	ErrCluster = errors.New("DB_CLUSTER does not fit the database")
)

const (
	firstRetry  = 100 * time.Millisecond // doubles with each failure
	lastRetry   = 2 * time.Second
	maxFailures = 12 // together about 17 s of waiting
)

// Up applies pending migrations. Any number of processes may call it at once: each returns when the schema is complete,
// and exactly one applies each migration. If nothing is pending, it only reads. If another session holds the lock, Up
// waits at most lockWait, and then returns an error that names the session. It retries for about 17 seconds if the
// database is unavailable or a table stays locked, and for about a minute if the database accepts connections but does
// not answer. The server rolls back a migration that was cut off, and the next call applies it.
//
// A schema newer than the program is logged. It is [ErrSchemaNewer] only if a breaking migration needs a newer program.
// If ctx ends, even during a migration, the error is ctx.Err().
func Up(ctx context.Context, url string, src Source, lockWait time.Duration, log *slog.Logger) (err error) {
	m, err := open(url, src, src.Pooler != sqldb.PoolerTransaction)
	if err != nil {
		return err
	}
	m.lockWait = lockWait
	defer func() { err = errors.Join(err, m.db.Close()) }()
	return m.retry(ctx, log, func() error { return m.apply(ctx, log) })
}

// Verify returns nil if the program can run on the schema, else [ErrSchemaNewer] or [ErrPending], wrapped. It logs a
// schema that is newer than the program but usable. It only reads, retries like Up, and needs the right to read the
// history table.
func Verify(ctx context.Context, url string, src Source, log *slog.Logger) (err error) {
	m, err := open(url, src, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.db.Close()) }()
	return m.retry(ctx, log, func() error {
		pending, err := m.look(ctx)
		switch e, _ := errors.AsType[*sqldb.Error](err); {
		case pending:
			err = fmt.Errorf("schema %s: %w; run the program's command migrate, or set MIGRATE_ON_START=true",
				src.Schema, ErrPending)
		case e != nil && e.Reason == sqldb.Denied:
			err = fmt.Errorf("%w; GRANT the role USAGE on its schema and SELECT ON %s", err, m.history)
		}
		return err
	})
}

// migrator applies a source to its database.
type migrator struct {
	dialect

	src      Source
	db       *sql.DB
	store    store
	lockWait time.Duration
	waiting  time.Time // since when awaitLock has waited; zero before

	known, current int64 // the newest migration of the program and of the schema
}

// retry calls do until it succeeds or fails for a lasting reason, for about 17 seconds. It logs each retry.
func (m *migrator) retry(ctx context.Context, log *slog.Logger, do func() error) error {
	for failures, retry := 0, firstRetry; ; failures, retry = failures+1, min(2*retry, lastRetry) {
		err := do()
		if err == nil {
			m.logNewer(ctx, log)
		}

		if err == nil || ctx.Err() != nil || !passing(err) || failures == maxFailures {
			return errors.Join(err, ctx.Err())
		}

		log.WarnContext(ctx, "trying again after an error", slog.String("schema", m.src.Schema), slog.Any("error", err))
		sqldb.Pause(ctx, retry)
	}
}

// open creates a pool of two connections, one for the lock and one for the work. lasting says that settings stay with a
// session and may be made. It does not connect yet.
func open(url string, src Source, lasting bool) (*migrator, error) {
	marks, err := src.marks()
	if err != nil {
		return nil, err
	}
	d, err := newDialect(url, src)
	if err != nil {
		return nil, err
	}

	if !lasting {
		d.sessionSettings = ""
	}
	connector, err := sqldb.Connector(url, d.sessionSettings, d.txSettings)
	if err != nil {
		return nil, err
	}
	history, err := database.NewStore(d.goose, d.history)
	extended, ok := history.(database.StoreExtender)
	if !ok {
		return nil, fmt.Errorf("the history of schema %s: a %T cannot look for its table: %w", src.Schema, history, err)
	}

	db := sql.OpenDB(connector)
	const connections = 2
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return &migrator{dialect: d, src: src, db: db, store: store{extended, d.columns, marks}}, nil
}

// provider returns a new goose provider: after a failure a provider does not look for the history table again.
func (m *migrator) provider() (*goose.Provider, error) {
	folder, err := fs.Sub(m.src.FS, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open the folder of the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectCustom, m.db, folder,
		goose.WithStore(m.store), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations of schema %s: %w", m.src.Schema, err)
	}
	return p, nil
}

// look reports whether a migration is pending. It only reads, for at most lookTimeout. It asks goose only if there is a
// history, because goose would create one.
func (m *migrator) look(ctx context.Context) (pending bool, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSilent)
	defer cancel()
	defer func() { err = silent(bounded, err) }()

	p, err := m.provider()
	if err != nil {
		return false, err
	}

	undistributed, err := m.undistributed(bounded)
	if err != nil {
		return false, err
	}

	exists, err := m.store.TableExists(bounded, m.db)
	if err != nil {
		return false, databaseError("look for "+m.history, err)
	}
	if !exists {
		return true, nil
	}

	// A breaking migration that the program does not know refuses it.
	m.known = slices.Max(slices.Collect(maps.Keys(m.store.marks)))
	current, oldest, err := m.store.versions(bounded, m.db)
	m.current = current
	if err == nil && oldest > m.known {
		return false, fmt.Errorf("schema %s: %w: it has version %d, which needs a program that knows version %d or more, "+
			"and this one knows up to %d; run a newer program", m.src.Schema, ErrSchemaNewer, m.current, oldest, m.known)
	}

	if err == nil {
		pending, err = p.HasPending(bounded)
		pending = pending || undistributed
	}
	if err != nil {
		err = databaseError("read "+m.history, err)
	}
	return pending, err
}

// logNewer logs if the program runs on a newer schema.
func (m *migrator) logNewer(ctx context.Context, log *slog.Logger) {
	if m.current > m.known {
		log.InfoContext(ctx, "the schema is newer than this program, which may run on it",
			slog.String("schema", m.src.Schema), slog.Int64("version", m.current), slog.Int64("known", m.known))
	}
}

// apply applies pending migrations under the lock until nothing is pending.
func (m *migrator) apply(ctx context.Context, log *slog.Logger) error {
	for {
		if pending, err := m.look(ctx); err != nil || !pending {
			return err
		}

		conn, err := m.tryLock(ctx)
		if err != nil {
			return err
		}

		if conn == nil {
			if err := m.awaitLock(ctx); err != nil {
				return err
			}
			continue
		}

		err = m.applyLocked(ctx, log)
		m.unlock(ctx, conn)
		if err != nil {
			return err
		}
	}
}

// applyLocked applies pending migrations and logs each of them.
func (m *migrator) applyLocked(ctx context.Context, log *slog.Logger) error {
	p, err := m.provider()
	if err != nil {
		return err
	}
	if m.schemas != "" {
		if err := m.inTx(ctx, m.schemas); err != nil {
			return databaseError("create the schemas", err)
		}
	}

	for {
		if err := m.announce(ctx, p); err != nil {
			return databaseError("prepare "+m.history, err)
		}

		r, err := p.UpByOne(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return m.distribute(ctx, log)
		}
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			err = databaseError("apply the migration "+partial.Failed.Source.Path, err)
			if m.src.Pooler == sqldb.PoolerTransaction && sqldb.SQLState(err) == "57014" { // only outside of a transaction
				err = fmt.Errorf("%w; a direct connection as MIGRATE_DATABASE_URL has no limit", err)
			}
			return err
		}
		if err != nil {
			return databaseError("apply the migrations of schema "+m.src.Schema, err)
		}

		log.InfoContext(ctx, "migration applied", slog.String("schema", m.src.Schema),
			slog.String("file", r.Source.Path), slog.Float64("ms", float64(r.Duration.Microseconds())/1000))
	}
}

// announce creates the history if there is none. If the next migration does not run in one transaction with its line
// in the history, announce also writes what that migration demands of programs: the process may die after the
// migration.
func (m *migrator) announce(ctx context.Context, p *goose.Provider) error {
	current, err := p.GetDBVersion(ctx) // creates it
	if err != nil {
		return err
	}
	versions := slices.Sorted(maps.Keys(m.store.marks))
	next, _ := slices.BinarySearch(versions, current+1)
	if next == len(versions) || m.store.marks[versions[next]].inTx {
		return nil
	}

	return m.inTx(ctx, m.store.raiseOldest(versions[next]))
}

// ask reads one row. A read may be sent twice, so it needs no connection of its own.
func (m *migrator) ask(ctx context.Context, query string, args ...any) *sql.Row {
	return m.db.QueryRowContext(ctx, query, args...) //nolint:forbidigo // as above
}

// inTx runs statements in one transaction, which begins with the dialect's settings.
func (m *migrator) inTx(ctx context.Context, statements ...string) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit

	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// passing reports whether a retry may succeed. XX000 ("tuple concurrently updated") and 23505 on the history or a
// system catalog are what two processes do to each other after the lock was lost.
func passing(err error) bool {
	if errors.Is(err, errSilent) {
		return true
	}
	e := sqldb.Classify(err, false)
	if e == nil || sqldb.Misconfigured(err) {
		return false
	}
	switch e.Reason {
	case sqldb.Connection, sqldb.Overloaded, sqldb.Serialization, sqldb.Outdated, sqldb.LockTimeout:
		return true
	case sqldb.Constraint:
		return e.Constraint == onceIndex || strings.HasPrefix(e.Constraint, "pg_")
	case sqldb.Other, sqldb.Denied, sqldb.Timeout, sqldb.Canceled, sqldb.Data:
	}
	return e.SQLState == "XX000"
}

// databaseError says what failed, without the database's DETAIL.
func databaseError(what string, err error) error {
	if e := sqldb.Classify(err, false); e != nil {
		err = e
	}
	return fmt.Errorf("%s: %w", what, err)
}
