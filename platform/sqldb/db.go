package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
)

// DB is a pool of connections to one database. Its methods are safe for concurrent
// use.
type DB struct {
	pool     *sqlx.DB
	permits  *readPermits
	kind     Engine
	engine   engine
	settings Settings
	log      *slog.Logger
	metrics  *metrics
}

const (
	connMaxIdleTime = 5 * time.Minute
	connMaxLifetime = 30 * time.Minute // so that connections follow a failover or a changed role
)

// Open checks the settings and returns a pool. It opens no connection: the first use
// does. reg may be nil. Open panics if another pool on reg has the name.
func Open(ctx context.Context, s Settings, log *slog.Logger, reg prometheus.Registerer) (*DB, error) {
	s.setDefaults()
	kind, err := EngineOf(s.URL, s.Engines...)
	if err != nil {
		return nil, err
	}
	guarded, err := kind.implementation().connector(s)
	if err != nil {
		return nil, err
	}
	if len(guarded.ignored) > 0 {
		log.WarnContext(ctx, "the database URL has parameters that are ignored", slog.String("pool", s.Name),
			slog.String("parameters", strings.Join(guarded.ignored, ", ")))
	}
	guarded.maxWait = s.StatementTimeout + Grace
	guarded.contention, guarded.tracing = s.Contention, newTracing(s, kind, guarded.database)

	pool := sql.OpenDB(guarded)
	pool.SetMaxOpenConns(s.MaxOpenConns)
	// An idle connection is cheaper to keep than to open again.
	pool.SetMaxIdleConns(s.MaxOpenConns)
	pool.SetConnMaxIdleTime(connMaxIdleTime)
	pool.SetConnMaxLifetime(connMaxLifetime)

	db := &DB{
		pool: sqlx.NewDb(pool, string(kind)), permits: newReadPermits(s.MaxOpenConns),
		kind: kind, engine: kind.implementation(), settings: s, log: log,
	}
	db.metrics = newMetrics(reg, s.Name, kind, db.Stats)
	return db, nil
}

// Connector returns a connector for a plain *sql.DB, which migrations and tools use.
// It checks the URL as Open does and guards the connections, but sends no session
// settings, so that one URL serves with and without a pooler. Each session begins with
// the statement session, and each transaction with the statements tx; both may be "". It
// bounds no statement: use contexts with deadlines.
func Connector(url, session, tx string) (driver.Connector, error) {
	kind, err := EngineOf(url)
	if err != nil {
		return nil, err
	}
	c, err := kind.implementation().connector(Settings{URL: url})
	if err != nil {
		return nil, err
	}
	c.txSettings = tx
	if session != "" {
		c.initStatements = append(c.initStatements, session)
	}
	return c, nil
}

// Ping checks that the database answers, on a new connection where the pool has
// none. A failure is an [*Error].
func (db *DB) Ping(ctx context.Context) error {
	if err := db.pool.PingContext(ctx); err != nil {
		return db.acquireError(err)
	}
	return nil
}

// Close waits for the connections in use and closes the pool.
func (db *DB) Close() error {
	if err := db.pool.Close(); err != nil {
		return fmt.Errorf("close the database pool: %w", err)
	}
	return nil
}

// Stats returns the pool's statistics. A read that waits for a permit counts as a wait.
func (db *DB) Stats() sql.DBStats {
	stats := db.pool.Stats()
	stats.WaitCount += db.permits.waits.Load()
	stats.WaitDuration += time.Duration(db.permits.waited.Load())
	return stats
}

// acquire takes a connection out of the pool for the caller alone, and sets the session to
// what o asks for. A transaction may have left other settings; nil leaves them.
func (db *DB) acquire(ctx context.Context, o *options) (*sqlx.Conn, *conn, error) {
	pinned, err := db.pool.Connx(ctx)
	if err != nil {
		return nil, nil, db.acquireError(err)
	}
	var guarded *conn
	err = pinned.Raw(func(inner any) error {
		guarded, _ = inner.(*conn) // the pool's connector makes no other
		return nil
	})

	if err == nil && o != nil {
		err = guarded.applySettings(ctx, db.engine.sessionSettings(db.settings, o))
	}
	if err != nil {
		release(pinned)
		return nil, nil, db.acquireError(err)
	}
	return pinned, guarded, nil
}

// acquireError classifies a failure to get a connection. Nothing was sent.
func (db *DB) acquireError(err error) error {
	e := Classify(err, false)
	switch {
	case e == nil: // "sql: database is closed" has no type of its own
		return &Error{Outcome: NotApplied, Reason: Connection, err: err}
	case e.Reason != Timeout:
	case isType[*connectError](err):
		e.Reason = Connection
	default: // the time ran out in the queue: the pool is too small for the load
		e.Reason = Overloaded
	}
	return e
}

// release returns a connection to the pool. Its one error, sql.ErrConnDone, says that a broken one is gone already.
func release(pinned *sqlx.Conn) { _ = pinned.Close() }
