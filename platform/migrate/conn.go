package migrate

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

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

// txConnector makes connections whose transactions begin with settings. goose begins them itself, so they cannot be set
// anywhere else.
type txConnector struct {
	driver.Connector

	settings string
}

// Connect opens a connection.
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

// BeginTx begins a transaction and applies the settings.
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
