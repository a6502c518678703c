package prove

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// holder is a workload of which no more is needed than a row to be held.
type holder struct {
	Workload

	released int
}

func (h *holder) Hold(context.Context) Holding {
	return Holding{Statement: `UPDATE held SET n = n + 1`, Commit: true, Released: func() { h.released++ }}
}

// A run that cannot even begin is one that failed by itself.
func TestNoServer(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), System{Admin: "tea"}, Options{})
	if err == nil || report.Broken == "" || slices.ContainsFunc(report.Failures(), func(f Failure) bool { return !f.OfRun() }) {
		t.Errorf("%v, %+v", err, report)
	}
}

// What is done to a service is done and undone; and a server that falls silent in the
// middle keeps neither a fault nor its undoing for ever.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy, between := faultproxy.New(t, dsn), faultproxy.New(t, dsn) // the prover's way, and the column's
	connector, err := sqldb.Connector(proxy.DSN(dsn))
	if err != nil {
		t.Fatal(err)
	}
	c := &column{role: u.User.Username(), proxy: between, done: map[Action]int{}}
	r := &rig{admin: sql.OpenDB(connector), patience: 300 * time.Millisecond, columns: []*column{c}}
	t.Cleanup(func() { _ = r.admin.Close() })
	if err := r.execute(t.Context(), `CREATE TABLE held (n int)`, `INSERT INTO held VALUES (0)`); err != nil {
		t.Fatal(err)
	}
	w := &holder{}
	if err := r.hold(t.Context(), c, w); err != nil || c.done[HoldOn] != 1 {
		t.Fatalf("%v, done %v", err, c.done)
	}
	if err := r.heal(t.Context()); err != nil || w.released != 1 {
		t.Fatalf("%v, released %d times", err, w.released)
	}
	if err := r.execute(t.Context(), `DO $$ BEGIN ASSERT (SELECT n FROM held) = 1; END $$`); err != nil {
		t.Errorf("what was held was not committed: %v", err)
	}

	if err := r.hold(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	proxy.Pause()
	ended := make(chan string)
	go func() {
		defer close(ended)
		// No context of theirs ends.
		ctx := context.WithoutCancel(t.Context())
		if r.allow(ctx, c) == nil {
			ended <- "a fault succeeds on a silent server"
		}
		if r.heal(ctx) == nil {
			ended <- "a silent server is healed"
		}
	}()
	select {
	case what, more := <-ended:
		if more {
			t.Error(what)
		}
	case <-time.After(time.Minute):
		t.Error("a silent server is waited for")
	}
}
