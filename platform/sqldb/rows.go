package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"go.opentelemetry.io/otel/trace"
)

// rows reports the first error while rows are read, to the statement's span, which ends
// with them, and to a transaction that must fail with it: the server may wait for a
// lock, in vain, while rows are read.
type rows struct {
	driver.Rows

	conn *conn
	ctx  context.Context
	span trace.Span // nil when not recorded
	err  error      // the first but io.EOF
}

// Next reads a row.
func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		r.fail(err)
	}
	return err
}

// Close ends the span; database/sql calls it once, after the last row too.
func (r *rows) Close() error {
	err := r.Rows.Close()
	if err != nil {
		r.fail(err)
	}
	endSpan(r.ctx, r.span, r.err)
	return err
}

func (r *rows) fail(err error) {
	if r.err != nil {
		return
	}
	r.err = err
	if r.conn.failsTx() {
		r.conn.recordFailure(err)
	}
}
