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
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// A row is locked and unlocked, and what is left is healed; a server that falls silent in
// the middle keeps neither a fault nor its end for ever.
func TestLockAndHeal(t *testing.T) {
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
	err = db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE held (n int); INSERT INTO held VALUES (0)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var locked, unlocked int
	target := &fault.Target{Role: u.User.Username(), Proxy: faultproxy.New(t, dsn)}
	target.Lock = func(context.Context) fault.Lock {
		return fault.Lock{
			Statement: `UPDATE held SET n = n + 1`, Commit: true,
			Locked: func() { locked++ }, Unlocking: func() { unlocked++ },
		}
	}
	in, targets := &fault.Injector{DB: db, Timeout: time.Second}, []*fault.Target{target}
	lock := func() {
		t.Helper()
		if err := in.Inject(t.Context(), fault.Event{Action: fault.LockOn}, targets); err != nil {
			t.Fatal(err)
		}
	}
	target.Begin()
	lock()
	if done := target.Done(); done[fault.LockOn] != 1 || locked != 1 || unlocked != 0 {
		t.Errorf("done %v, locked %d times, unlocked %d times", done, locked, unlocked)
	}
	if err := in.Heal(t.Context(), targets); err != nil || unlocked != 1 {
		t.Errorf("healed with %v, unlocked %d times", err, unlocked)
	}
	var n int
	if err := db.GetContext(t.Context(), &n, `SELECT n FROM held`); err != nil || n != 1 {
		t.Errorf("what the transaction changed was not committed: %d, %v", n, err)
	}

	lock()
	proxy.Pause()
	if in.Heal(context.WithoutCancel(t.Context()), targets) == nil {
		t.Error("the end of a fault succeeds on a silent server")
	}
}
