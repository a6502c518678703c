package fault_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// A client writes all the time, by the URL of both servers, and goes on after each failover. A synchronous pair keeps
// whatever was acknowledged; an asynchronous one that is held back must lose something, or no proof could notice it.
func TestPair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holdBack time.Duration
		moves    int
	}{"synchronous": {0, 2}, "held back": {300 * time.Millisecond, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := fault.StartPair(t.Context(), "rows", localpg.Options{
				Settings: map[string]string{"fsync": "off"},
			}, c.holdBack)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := pair.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			db, err := sqldb.Open(t.Context(), sqldb.Settings{
				URL: pair.URL("rows"), StatementTimeout: 5 * time.Second, LockTimeout: time.Second,
			}, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := local.Execute(t.Context(), db, `CREATE TABLE kept (n int)`); err != nil {
				t.Fatal(err)
			}

			stop, acknowledged := make(chan struct{}), make(chan []int)
			go func() { acknowledged <- insertUntil(t.Context(), db, stop) }()
			injector := fault.Injector{DB: db, Cluster: pair}
			target := &fault.Target{}
			target.Begin()
			for range c.moves {
				err := injector.Inject(t.Context(), fault.Event{Action: fault.Failover}, []*fault.Target{target})
				if err != nil {
					t.Error(err)
				}
			}
			close(stop)
			rows, kept := <-acknowledged, 0
			err = db.GetContext(t.Context(), &kept, `SELECT count(*) FROM kept WHERE n = ANY ($1)`, pq.Array(rows))
			if lost := len(rows) - kept; err != nil || len(rows) == 0 || (lost > 0) != (c.holdBack > 0) {
				t.Errorf("%d of %d acknowledged rows are lost, %v", lost, len(rows), err)
			}
			outages := injector.Outages()
			if done := target.Done()[fault.Failover]; done != c.moves || len(outages) != c.moves {
				t.Errorf("%d failovers, %d outages, want %d", done, len(outages), c.moves)
			}
		})
	}
}

// insertUntil inserts numbers and returns those that were acknowledged.
func insertUntil(ctx context.Context, db *sqldb.DB, stop <-chan struct{}) (acknowledged []int) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return acknowledged
		default:
		}
		if local.Execute(ctx, db, fmt.Sprintf(`INSERT INTO kept VALUES (%d)`, n)) == nil {
			acknowledged = append(acknowledged, n)
		}
	}
}
