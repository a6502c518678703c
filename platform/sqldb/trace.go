package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// tracing makes a span of each call to the server that belongs to a recorded
// trace: the statement's text with its placeholders, never a value, and of an
// error its class alone, since the server's sentence may quote one.
type tracing struct {
	tracer trace.Tracer
	common trace.SpanStartEventOption
}

// traced returns a connector whose connections make spans, or c itself without a
// provider.
func traced(c driver.Connector, s Settings) driver.Connector {
	if s.TracerProvider == nil {
		return c
	}
	system := semconv.DBSystemNamePostgreSQL
	if kind, err := EngineOf(s.URL); err == nil && kind == MySQL {
		system = semconv.DBSystemNameMySQL
	}
	common := []attribute.KeyValue{system, semconv.DBClientConnectionPoolName(s.Name)}
	if u, err := url.Parse(s.URL); err == nil {
		if name := strings.TrimPrefix(u.Path, "/"); name != "" {
			common = append(common, semconv.DBNamespace(name))
		}
	}
	return &tracedConnector{Connector: c, tracing: &tracing{
		tracer: s.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/sqldb"),
		common: trace.WithAttributes(common...),
	}}
}

// start begins the span of one call, or returns nil when the trace is not recorded.
//
//nolint:spancheck // end ends it
func (t *tracing) start(ctx context.Context, name, query string) trace.Span {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), t.common}
	if query != "" {
		d := describe(query)
		name = d.summary
		options = append(options, trace.WithAttributes(semconv.DBQuerySummary(d.summary), semconv.DBQueryText(d.text)))
	}
	_, span := t.tracer.Start(ctx, name, options...)
	return span
}

// end ends a span of start, which may be nil. A lock that did not come free in time
// sets error.type but not the error status: group commit waits for locks briefly and
// then runs without them, and where it fails a request the parent spans say so. Nor
// does a cancelled ctx set the error status.
func end(ctx context.Context, span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil && !errors.Is(err, driver.ErrSkip) {
		kind := Connection // driver.ErrBadConn, which Classify leaves to database/sql
		if e := Classify(err, false); e != nil {
			kind = e.Reason
			if e.SQLState != "" {
				span.SetAttributes(semconv.DBResponseStatusCode(e.SQLState))
			}
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(kind.String()))
		if kind != LockTimeout && !errors.Is(ctx.Err(), context.Canceled) {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}

// tracedConnector opens tracedConns.
type tracedConnector struct {
	driver.Connector

	tracing *tracing
}

// Connect opens a connection, in a span when a request waits for it.
func (c *tracedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	span := c.tracing.start(ctx, "connect", "")
	made, err := c.Connector.Connect(ctx)
	end(ctx, span, err)
	if err != nil {
		return nil, err //nolint:wrapcheck // classified above
	}
	guarded, ok := made.(*conn)
	if !ok {
		return made, nil
	}
	return &tracedConn{conn: guarded, tracing: c.tracing}, nil
}

// tracedConn is a connection whose calls make spans.
type tracedConn struct {
	*conn

	tracing *tracing
}

// ExecContext sends a statement.
func (c *tracedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	span := c.tracing.start(ctx, "", query)
	result, err := c.conn.ExecContext(ctx, query, args)
	end(ctx, span, err)
	return result, err
}

// QueryContext sends a statement; its span ends when the rows are read.
func (c *tracedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	span := c.tracing.start(ctx, "", query)
	rows, err := c.conn.QueryContext(ctx, query, args)
	if err != nil || span == nil {
		end(ctx, span, err)
		return rows, err
	}
	return &tracedRows{Rows: rows, ctx: ctx, span: span}, nil
}

// BeginTx begins a transaction.
func (c *tracedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	span := c.tracing.start(ctx, "BEGIN", "")
	inner, err := c.conn.BeginTx(ctx, opts)
	end(ctx, span, err)
	if err != nil || span == nil {
		return inner, err
	}
	return &tracedTx{Tx: inner, ctx: ctx, tracing: c.tracing}, nil
}

// tracedTx is a transaction whose COMMIT and ROLLBACK make spans.
type tracedTx struct {
	driver.Tx

	ctx     context.Context //nolint:containedctx // Commit and Rollback are given none
	tracing *tracing
}

// Commit sends COMMIT.
func (t *tracedTx) Commit() error { return t.trace("COMMIT", t.Tx.Commit) }

// Rollback sends ROLLBACK.
func (t *tracedTx) Rollback() error { return t.trace("ROLLBACK", t.Tx.Rollback) }

func (t *tracedTx) trace(name string, send func() error) error {
	span := t.tracing.start(t.ctx, name, "")
	err := send()
	end(t.ctx, span, err)
	return err
}

// tracedRows are the rows of a statement whose span lasts until they are read.
type tracedRows struct {
	driver.Rows

	ctx  context.Context //nolint:containedctx // Close is given none
	span trace.Span
	err  error // the first but io.EOF
}

// Next reads a row.
func (r *tracedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) && r.err == nil {
		r.err = err
	}
	return err //nolint:wrapcheck // io.EOF has a meaning to database/sql
}

// Close ends the span; database/sql calls it once, after the last row too.
func (r *tracedRows) Close() error {
	err := r.Rows.Close()
	if r.err == nil {
		r.err = err
	}
	end(r.ctx, r.span, r.err)
	return err //nolint:wrapcheck // classified above
}
