package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// withConn runs f on one connection of its own: database/sql repeats what it sends through *sql.DB as it sees fit.
func withConn(ctx context.Context, url string, f func(conn *sql.Conn) error) (err error) {
	connector, err := sqldb.Connector(url)
	if err != nil {
		return fmt.Errorf("the database of the bench: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database of the bench: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return f(conn)
}

// execute runs statements one after the other, each in a transaction of its own.
func execute(ctx context.Context, url string, statements ...string) error {
	return withConn(ctx, url, func(conn *sql.Conn) error {
		for _, statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// row reads the one row of a query into the variables.
func row(ctx context.Context, url, query string, into ...any) error {
	return withConn(ctx, url, func(conn *sql.Conn) error {
		if err := conn.QueryRowContext(ctx, query).Scan(into...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		return nil
	})
}

// number returns a check that reads one number by the query.
func number(url, query string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		err = row(ctx, url, query, &n)
		return n, err
	}
}
