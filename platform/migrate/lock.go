package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	pollInterval = 100 * time.Millisecond // between two tries for the lock

	// lookTimeout bounds statements that only read or lock: a network that drops packets would block the start forever.
	// Migrations are not bounded.
	lookTimeout = 5 * time.Second

	// unlockTimeout bounds the release of the lock; closing its connection releases it too.
	unlockTimeout = 2 * time.Second
)

// errSilent means that the database did not answer in time.
var errSilent = fmt.Errorf("the database did not answer within %s", lookTimeout)

// tryLock returns the connection that holds the lock, or nil if another process holds it. It never waits for the lock:
// a waiting statement keeps a snapshot, and CREATE INDEX CONCURRENTLY of the lock's holder would wait for that. The
// transaction is no *sql.Tx, which would end with the context that bounds its begin.
func (m *migrator) tryLock(ctx context.Context) (conn *sql.Conn, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSilent)
	defer cancel()
	defer func() { err = silent(bounded, err) }()

	conn, err = m.db.Conn(bounded)
	if err != nil {
		return nil, databaseError("connect", err)
	}

	if m.begin != "" {
		_, err = conn.ExecContext(bounded, m.begin)
	}
	locked := false
	if err == nil {
		err = conn.QueryRowContext(bounded, m.dialect.tryLock).Scan(&locked)
	}
	if locked {
		return conn, nil
	}

	m.unlock(ctx, conn)
	if err != nil {
		err = databaseError("take the lock", err)
	}
	return nil, err
}

// awaitLock pauses before the next try for a lock that another session holds. After lockWait it returns an error that
// names the session.
func (m *migrator) awaitLock(ctx context.Context) error {
	if m.waiting.IsZero() {
		m.waiting = time.Now()
	}
	left := m.lockWait - time.Since(m.waiting)
	if left > 0 {
		sqldb.Pause(ctx, min(left, pollInterval))
		return nil
	}

	holder, err := m.lockHolder(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("schema %s: %s held the migration lock for all of MIGRATE_TIMEOUT (%s): "+
		"wait for it if it migrates, else end that session, and start again", m.src.Schema, holder, m.lockWait)
}

// lockHolder describes the session that holds the lock. It quotes the session's names, because its client chose them.
func (m *migrator) lockHolder(ctx context.Context) (_ string, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSilent)
	defer cancel()
	defer func() { err = silent(bounded, err) }()

	var pid int64
	var role, application string
	err = m.ask(bounded, m.dialect.holder).Scan(&pid, &role, &application)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "a session that has just released it", nil
	case err != nil:
		return "", databaseError("look for the holder of the lock", err)
	}

	description := fmt.Sprintf("the session with pid %d", pid)
	if role != "" {
		description += fmt.Sprintf(" of the role %q", role)
	}
	if application != "" {
		description += fmt.Sprintf(" (application_name %q)", application)
	}
	return description, nil
}

// unlock releases the lock and returns the connection to the pool. If that fails, it closes the connection instead.
func (m *migrator) unlock(ctx context.Context, conn *sql.Conn) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if _, err := conn.ExecContext(bounded, m.dialect.unlock); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = conn.Close()
}

// silent adds to an error why bounded has ended.
func silent(bounded context.Context, err error) error {
	if err == nil || bounded.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(bounded), err)
}
