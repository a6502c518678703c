package migrate

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// txSettings begin each transaction of a migration. A change of a table waits
// for a second at most: while it waits, every other user of the table waits
// behind it. The other two would end a long migration, or the transaction that
// holds the lock meanwhile. SET LOCAL because a pooler may be in between.
const txSettings = `SET LOCAL lock_timeout = '1s';
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;`

// driverConn is what database/sql can use of a connection of package sqldb.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// txConnector makes connections whose transactions begin with the dialect's settings. goose
// begins them itself, so this is the only place to add it.
type txConnector struct {
	driver.Connector

	settings string
}

func (c txConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // sqldb has wrapped it
	}
	full, ok := inner.(driverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T lacks a method", inner), inner.Close())
	}
	return txConn{full, c.settings}, nil
}

type txConn struct {
	driverConn

	settings string
}

// begin and rollback are the transaction that holds the lock: one that no
// context ends, so that it can begin within lookTimeout and last.
const (
	begin    = "BEGIN ISOLATION LEVEL READ COMMITTED;" + txSettings
	rollback = "ROLLBACK"
)

func (c txConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.driverConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err //nolint:wrapcheck // driver.ErrBadConn has a meaning to database/sql
	}
	if _, err := c.ExecContext(ctx, c.settings, nil); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}
