package sqldb

import (
	"database/sql/driver"
	"errors"
	"io"
)

// watch lets no error pass unnoticed that comes with the rows.
func (c *conn) watch(rows driver.Rows) driver.Rows {
	if !c.dooms || !c.inTx {
		return rows
	}
	return &watchedRows{rows, c}
}

// watchedRows are the rows of a statement in a transaction that a failure dooms:
// a lock that is waited for while rows are read may not be got.
type watchedRows struct {
	driver.Rows

	conn *conn
}

func (r *watchedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		r.conn.noteFailure(err)
	}
	return err //nolint:wrapcheck // io.EOF has a meaning to database/sql
}

func (r *watchedRows) Close() error {
	err := r.Rows.Close()
	if err != nil {
		r.conn.noteFailure(err)
	}
	return err //nolint:wrapcheck // classified above
}
