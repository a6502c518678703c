//go:build ha

// hack/nightly ha alone runs these tests: they mostly wait, for half a minute.

package patroni_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/patroni"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
)

// Patroni switches over, and promotes the standby of a primary that is killed; what was confirmed is there each time,
// at the address of another server.
func TestMove(t *testing.T) {
	t.Parallel()
	c, err := patroni.Start(t.Context(), "rows", localpg.Options{
		Parent: os.TempDir(), Environ: config.Environ(), Settings: map[string]string{"fsync": "off"},
	})
	if errors.Is(err, patroni.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	onPrimary := func(statement string) (port string, n int) {
		t.Helper()
		err := local.WithConn(t.Context(), c.URL("rows"), func(conn *sql.Conn) error {
			_, err := conn.ExecContext(t.Context(), statement)
			if err == nil {
				err = conn.QueryRowContext(t.Context(), `SELECT current_setting('port'), count(*) FROM kept`).Scan(&port, &n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return port, n
	}
	before, _ := onPrimary(`CREATE TABLE kept AS SELECT 1 AS n`)
	for i, action := range []fault.Action{fault.Switchover, fault.Failover} {
		begin, ended := time.Now(), time.Time{}
		if err := c.Move(t.Context(), action, func(at time.Time) { ended = at }); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		port, n := onPrimary(`INSERT INTO kept VALUES (1)`)
		if port == before || n != i+2 {
			t.Errorf("after a %s the primary is on port %s with %d rows; before on %s with %d", action, port, n, before, i+1)
		}
		if ended.Before(begin) {
			t.Errorf("%s: it is not said when the primary was lost", action)
		}
		before = port
	}
}
