package fault_test

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// A row is locked for the time of the fault, and what its transaction did is committed; a
// server that falls silent meanwhile does not keep the fault for ever.
func TestLockRow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.New(t, dsn)
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: proxy.DSN(dsn), StatementTimeout: time.Second, LockTimeout: time.Second / 2,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := local.Execute(t.Context(), db, `CREATE TABLE held AS SELECT 0 AS n`); err != nil {
		t.Fatal(err)
	}
	silent := false
	target := &fault.Target{Role: u.User.Username()}
	target.Lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		begin := time.Now()
		err := hold(tx.ExecContext(ctx, `UPDATE held SET n = n + 1`))
		if time.Since(begin) < 20*time.Millisecond {
			t.Error("the row is not held for the time of the fault")
		}
		if silent {
			proxy.Pause()
		}
		return err
	}
	inject := func() error {
		target.Begin()
		event := fault.Event{Action: fault.LockRow, For: 20 * time.Millisecond}
		return (&fault.Injector{DB: db}).Inject(t.Context(), event, []*fault.Target{target})
	}
	if err := inject(); err != nil || target.Done()[fault.LockRow] != 1 {
		t.Errorf("done %v, %v", target.Done(), err)
	}
	var n int
	if err := db.GetContext(t.Context(), &n, `SELECT n FROM held`); err != nil || n != 1 {
		t.Errorf("what the transaction changed was not committed: %d, %v", n, err)
	}
	if silent = true; inject() == nil {
		t.Error("the end of a fault succeeds on a silent server")
	}
}
