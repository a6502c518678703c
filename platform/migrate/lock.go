package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	pollInterval = 100 * time.Millisecond // between two tries for the lock

	// lookTimeout bounds what only looks or locks: a network that swallows packets would hold the start for ever. A
	// migration itself takes as long as it takes.
	lookTimeout = 5 * time.Second

	// unlockTimeout bounds the end of the lock; closing its connection frees it too.
	unlockTimeout = 2 * time.Second
)

// errSilent is a database that did not answer in time.
var errSilent = fmt.Errorf("the database did not answer within %s", lookTimeout)

// tryLock takes the lock on a connection of its own, which it returns, or nil while another process holds the lock. The
// lock is tried, never waited for: a statement that waits keeps a snapshot, for which CREATE INDEX CONCURRENTLY of the
// lock's holder would wait. The transaction is no *sql.Tx, which would end with the context that bounds its begin.
func (m *migrator) tryLock(ctx context.Context) (conn *sql.Conn, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSilent)
	defer cancel()
	defer func() { err = silent(bounded, err) }()
	if conn, err = m.db.Conn(bounded); err != nil {
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

// awaitLock pauses before the next try for a lock that another session holds. It returns an error that names the
// session once the lock was waited for longer than lockWait.
func (m *migrator) awaitLock(ctx context.Context) error {
	if m.waiting.IsZero() {
		m.waiting = time.Now()
	}
	left := m.lockWait - time.Since(m.waiting)
	if left > 0 {
		pause(ctx, min(left, pollInterval))
		return nil
	}
	holder, err := m.lockHolder(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("schema %s: the lock of its migrations was held by %s for all of MIGRATE_TIMEOUT (%s): "+
		"wait for it when it migrates, else end that session, and start again", m.src.Schema, holder, m.lockWait)
}

// lockHolder describes the session that holds the lock. Its names are quoted, because its client has chosen them.
func (m *migrator) lockHolder(ctx context.Context) (_ string, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookTimeout, errSilent)
	defer cancel()
	defer func() { err = silent(bounded, err) }()
	conn, err := m.db.Conn(bounded)
	if err != nil {
		return "", databaseError("connect", err)
	}
	defer func() { _ = conn.Close() }()
	var pid int64
	var role, application string
	err = conn.QueryRowContext(bounded, m.dialect.holder).Scan(&pid, &role, &application)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "a session that has just given it back", nil
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

// unlock frees the lock and gives the connection back. A connection on which that fails is closed, which frees it too.
func (m *migrator) unlock(ctx context.Context, conn *sql.Conn) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if _, err := conn.ExecContext(bounded, m.dialect.unlock); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = conn.Close()
}

// createSchemas creates what has to exist before the first migration.
func (m *migrator) createSchemas(ctx context.Context) error {
	if m.schemas == "" {
		return nil
	}
	conn, err := m.db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, m.schemas)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		return databaseError("create the schemas", err)
	}
	return nil
}

// silent adds to an error why bounded has ended.
func silent(bounded context.Context, err error) error {
	if err == nil || bounded.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(bounded), err)
}

// pause waits for d, half of it more or less, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d/2 + rand.N(d)):
	case <-ctx.Done():
	}
}
