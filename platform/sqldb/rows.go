package sqldb

import (
	"database/sql/driver"
	"errors"
	"io"
)

// checkRows wraps the rows of a statement so that an error while they are read
// counts as the transaction's failure, where failTx asks for that.
func (c *conn) checkRows(rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	if !c.connector.failTx || !c.inTx {
		return rows, nil
	}
	return &checkedRows{rows, c}, nil
}

// checkedRows are rows whose errors fail the transaction: the server may wait for a
// lock, in vain, while rows are read.
type checkedRows struct {
	driver.Rows

	conn *conn
}

func (r *checkedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		r.conn.recordFailure(err)
	}
	return err //nolint:wrapcheck // io.EOF has a meaning to database/sql
}

func (r *checkedRows) Close() error {
	err := r.Rows.Close()
	if err != nil {
		r.conn.recordFailure(err)
	}
	return err //nolint:wrapcheck // classified above
}
