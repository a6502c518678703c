package faultproxy_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// The table of traps.md section 8: what the server did, and what the client gets to know.
func TestCut(t *testing.T) {
	t.Parallel()
	autocommit := func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, increase)
		return err
	}
	arguments := func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "UPDATE c SET n = n + $1 RETURNING n", 1).Scan(new(int))
	}
	transaction := func(ctx context.Context, conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, increase); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	}
	prepared := func(ctx context.Context, conn *sql.Conn) error {
		statement, err := conn.PrepareContext(ctx, "UPDATE c SET n = n + $1")
		if err != nil {
			return err
		}
		defer func() { _ = statement.Close() }()
		_, err = statement.ExecContext(ctx, 1)
		return err
	}
	for name, test := range map[string]struct {
		call       func(context.Context, *sql.Conn) error
		parameters string
		when       faultproxy.When
		want       int
	}{
		"autocommit, reply":                    {autocommit, "", faultproxy.AfterStatement, 1},
		"autocommit, meanwhile":                {autocommit, "", faultproxy.DuringStatement, 1},
		"autocommit, request":                  {autocommit, "", faultproxy.BeforeStatement, 0},
		"arguments, reply":                     {arguments, "", faultproxy.AfterStatement, 1},
		"arguments, meanwhile":                 {arguments, "", faultproxy.DuringStatement, 1},
		"arguments, request":                   {arguments, "", faultproxy.BeforeStatement, 0},
		"arguments in one round trip, reply":   {arguments, "&binary_parameters=yes", faultproxy.AfterStatement, 1},
		"arguments in one round trip, request": {arguments, "&binary_parameters=yes", faultproxy.BeforeStatement, 0},
		"prepared, reply":                      {prepared, "", faultproxy.AfterStatement, 1},
		"prepared, meanwhile":                  {prepared, "", faultproxy.DuringStatement, 1},
		"prepared, request":                    {prepared, "", faultproxy.BeforeStatement, 0},
		"statement in a transaction, reply":    {transaction, "", faultproxy.AfterStatement, 0},
		"commit, reply":                        {transaction, "", faultproxy.AfterCommit, 1},
		"commit, request":                      {transaction, "", faultproxy.BeforeCommit, 0},
	} {
		for how, end := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				b := setUp(t, test.parameters)
				b.proxy.Cut(test.when, end)
				conn := pin(t, b.through)
				err := test.call(t.Context(), conn)
				_ = conn.Close()
				switch {
				case err == nil:
					t.Error("no error, though the reply was lost")
				case end == faultproxy.RST && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, driver.ErrBadConn):
					t.Errorf("error %v, want a reset", err)
				case end == faultproxy.FIN && errors.Is(err, syscall.ECONNRESET):
					t.Errorf("error %v, want the end of the stream", err)
				}
				b.settle(t)
				if n := b.n(t); n != test.want {
					t.Errorf("n = %d, want %d", n, test.want)
				}
				if cuts := b.proxy.Cuts(); cuts != 1 {
					t.Errorf("%d cuts, want 1", cuts)
				}
				// One cut was ordered: the next call goes through.
				if err := test.call(t.Context(), pin(t, b.through)); err != nil {
					t.Errorf("after the cut: %v", err)
				}
			})
		}
	}
}

// Many clients, every seventh reply lost: what the server did is what the clients know of plus
// what was cut, exactly.
func TestCutEvery(t *testing.T) {
	t.Parallel()
	b := setUp(t, "&binary_parameters=yes")
	var counted atomic.Int64
	b.proxy.CutEvery(7, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("delete", increase),
		faultproxy.Counted(&counted))
	const clients, each = 8, 70
	var known, unknown atomic.Int32
	waittest.Together(t, clients, func(int) error {
		for range each {
			conn, err := b.through.Conn(t.Context())
			if err != nil {
				return err
			}
			if _, err = conn.ExecContext(t.Context(), increase); err == nil {
				known.Add(1)
			} else {
				unknown.Add(1)
			}
			_ = conn.Close()
		}
		return nil
	})
	const total = clients * each
	if known.Load() != total-total/7 || unknown.Load() != total/7 || b.proxy.Cuts() != total/7 {
		t.Errorf("%d known, %d unknown, %d cuts of %d", known.Load(), unknown.Load(), b.proxy.Cuts(), total)
	}
	if int(counted.Load()) != b.proxy.Cuts() {
		t.Errorf("the plan has counted %d", counted.Load())
	}
	if n := b.n(t); n != total {
		t.Errorf("n = %d, want %d", n, total)
	}
	b.proxy.StopCutting()
	conn := pin(t, b.through)
	for range 10 {
		if _, err := conn.ExecContext(t.Context(), increase); err != nil {
			t.Fatalf("after StopCutting: %v", err)
		}
	}
}

// A slow proxy delays and loses nothing.
func TestSlow(t *testing.T) {
	t.Parallel()
	b := setUp(t, "")
	conn := pin(t, b.through)
	b.proxy.Slow(20 * time.Millisecond)
	begin := time.Now()
	const times = 20
	for range times {
		if _, err := conn.ExecContext(t.Context(), increase); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 50*time.Millisecond { // 200 on average
		t.Errorf("%d statements took %s", times, took)
	}
	b.proxy.Slow(0)
	if n := b.n(t); n != times {
		t.Errorf("n = %d, want %d", n, times)
	}
}
