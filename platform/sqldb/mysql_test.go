package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/mariaproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
)

// mariaCounters makes a MariaDB database with two counters, a and b, at 0.
func mariaCounters(tb testing.TB) string {
	tb.Helper()
	url := dbtest.EmptyMariaDB(tb)
	db := open(tb, url)
	execute(tb, db, `CREATE TABLE counter (id varchar(20) PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000000000))`)
	execute(tb, db, `INSERT INTO counter VALUES ('a', 0), ('b', 0)`)
	return url
}

// quickMaria sets the shortest lock timeout of InnoDB.
func quickMaria(s *sqldb.Settings) { s.LockTimeout, s.StatementTimeout = time.Second, 3*time.Second }

func TestMySQLSession(t *testing.T) {
	t.Parallel()
	db := open(t, dbtest.EmptyMariaDB(t), func(s *sqldb.Settings) { s.LockTimeout = 1500 * time.Millisecond })
	var got struct {
		Isolation string  `db:"isolation"`
		Lock      int     `db:"lock_wait"`
		Statement float64 `db:"statement"`
		Idle      int     `db:"idle"`
	}
	const query = `SELECT @@tx_isolation AS isolation, @@innodb_lock_wait_timeout AS lock_wait,
	       @@max_statement_time AS statement, @@idle_transaction_timeout AS idle`
	if err := db.GetContext(t.Context(), &got, query); err != nil {
		t.Fatal(err)
	}
	if got.Isolation != "READ-COMMITTED" || got.Lock != 2 || got.Statement != 8 || got.Idle != 10 {
		t.Errorf("the session is %+v", got)
	}
	// A transaction's own, and back again, on the same connection.
	for _, want := range []int{7, 2, 2, 1} {
		var opts []sqldb.TxOption
		if want != 2 {
			opts = append(opts, sqldb.WithLockTimeout(time.Duration(want)*time.Second))
		}
		err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			return tx.GetContext(ctx, &got, query)
		}, opts...)
		if err != nil || got.Lock != want || got.Isolation != "READ-COMMITTED" {
			t.Errorf("in a transaction with %d s: %+v, %v", want, got, err)
		}
	}
	// The last one had its own, which a single statement must not inherit.
	err := db.Once(t.Context(), func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &got, query)
	})
	if err != nil || got.Lock != 2 {
		t.Errorf("afterwards, alone: %+v, %v", got, err)
	}
}

// An UPDATE that changes nothing has found its row all the same.
func TestMySQLCountsFoundRows(t *testing.T) {
	t.Parallel()
	db := open(t, mariaCounters(t))
	err := db.Once(t.Context(), func(ctx context.Context, conn *sqlx.Conn) error {
		result, err := conn.ExecContext(ctx, `UPDATE counter SET n = n WHERE id = 'a'`)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n != 1 || err != nil {
			t.Errorf("%d rows, %v, want 1", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// After a lock timeout (1205) MySQL would commit the rest of a transaction.
// Nothing of it may stay, whether or not the function returns the error.
func TestMySQLLockTimeoutFailsTheTransaction(t *testing.T) {
	t.Parallel()
	for name, swallow := range map[string]bool{"error returned": false, "error swallowed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := mariaCounters(t)
			db := open(t, url, quickMaria)
			release := hold(t, open(t, url), "b")
			err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				if err := add(ctx, tx, "a", 1); err != nil {
					return err
				}
				err := add(ctx, tx, "b", 1)
				wantError(t, sqldb.Classify(err, false), sqldb.NotApplied, sqldb.LockTimeout)
				if !swallow {
					return err
				}
				if err := add(ctx, tx, "a", 10); err == nil {
					t.Error("a statement after the failure was sent")
				}
				return nil
			})
			release()
			wantError(t, err, sqldb.NotApplied, sqldb.LockTimeout)
			wantValue(t, db, "a", 0)
			if err := incrementTx(db)(t.Context()); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}

// A deadlock (1213) rolls the whole transaction back; it is run again as a whole.
func TestMySQLDeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	db := open(t, mariaCounters(t))
	both, runs := make(chan struct{}, 2), make(chan struct{}, 10)
	change := func(first, second string) error {
		once := true
		return db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			runs <- struct{}{}
			if err := add(ctx, tx, first, 1); err != nil {
				return err
			}
			if once {
				once = false
				both <- struct{}{}
				for len(both) < cap(both) {
					time.Sleep(time.Millisecond)
				}
			}
			return add(ctx, tx, second, 1)
		})
	}
	done := make(chan error, 1)
	go func() { done <- change("a", "b") }()
	err := change("b", "a")
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	wantValue(t, db, "a", 2)
	wantValue(t, db, "b", 2)
	if len(runs) != 3 {
		t.Errorf("%d runs, want 3: one of the two again", len(runs))
	}
}

func TestMySQLLostReplies(t *testing.T) {
	t.Parallel()
	once := func(ctx context.Context, db *sqldb.DB) error {
		return execOnce(ctx, db, `UPDATE counter SET n = n + ? WHERE id = 'a'`, 1)
	}
	inTx := func(ctx context.Context, db *sqldb.DB) error {
		return incrementTx(db, sqldb.ResolveOutcome())(ctx)
	}
	for name, c := range map[string]struct {
		call    func(context.Context, *sqldb.DB) error
		cut     func(*mariaproxy.Proxy)
		outcome sqldb.Outcome
		value   int64
	}{
		"Once, applied":          {once, func(p *mariaproxy.Proxy) { p.CutReply("UPDATE counter") }, sqldb.Unknown, 1},
		"Once, not applied":      {once, func(p *mariaproxy.Proxy) { p.CutRequest("UPDATE counter") }, sqldb.Unknown, 0},
		"InTx, statement":        {inTx, func(p *mariaproxy.Proxy) { p.CutReply("UPDATE counter") }, sqldb.NotApplied, 0},
		"InTx, COMMIT applied":   {inTx, func(p *mariaproxy.Proxy) { p.CutReply("COMMIT") }, sqldb.Unknown, 1},
		"InTx, COMMIT lost":      {inTx, func(p *mariaproxy.Proxy) { p.CutRequest("COMMIT") }, sqldb.Unknown, 0},
		"InTx, BEGIN sent again": {inTx, func(p *mariaproxy.Proxy) { p.CutReply("START TRANSACTION") }, sqldb.NotApplied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := mariaCounters(t)
			direct := open(t, url)
			proxy := mariaproxy.New(t, url)
			db := open(t, proxy.DSN(url), quickMaria)
			c.cut(proxy)
			err := c.call(t.Context(), db)
			if proxy.Cuts() != 1 {
				t.Fatalf("%d cuts, want 1: the test tested nothing", proxy.Cuts())
			}
			if !strings.Contains(name, "sent again") {
				wantError(t, err, c.outcome, sqldb.Connection)
			} else if err != nil {
				t.Error(err)
			}
			waittest.Eventually(t, "the counter is right", func() bool { return value(t, direct, "a") == c.value })
			if err := c.call(t.Context(), db); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}
