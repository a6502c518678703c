package migrate_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// The network takes a statement and brings no answer. What only looks gives up and is
// tried again, as after a refused connection. Both cases wait at the same time.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for what, statement := range map[string]string{
		"looking for the history": "FROM pg_tables",
		"taking the lock":         "pg_try_advisory_xact_lock",
	} {
		url := dbtest.Empty(t)
		proxy := faultproxy.New(t, url)
		proxy.Cut(faultproxy.AfterStatement, faultproxy.Hang, faultproxy.Matching(statement))
		all.Go(func() {
			logs := new(waittest.Log)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := migrate.Up(ctx, proxy.DSN(url), source(), patience, slog.New(slog.NewTextHandler(logs, nil)))
			if got := logs.String(); err != nil || proxy.Cuts() != 1 || !strings.Contains(got, "did not answer within 5s") {
				t.Errorf("%s: %v, %d cuts, log %s", what, err, proxy.Cuts(), got)
			}
			verify(t, url, source())
		})
	}
	all.Wait()
}

// A process that is asked to stop, or killed, while a migration runs: the migration is
// rolled back, the lock is free, and the next process finishes.
func TestEndInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*faultproxy.Proxy){
		"asked to stop": func(*faultproxy.Proxy) {},
		"killed":        func(p *faultproxy.Proxy) { p.Refuse(); p.Drop(faultproxy.RST) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := dbtest.Empty(t)
			db := dbtest.Dial(t, url)
			proxy := faultproxy.New(t, url)
			apptest.Execute(t, db, `CREATE SCHEMA shop`)
			// The name of the first table is taken by a transaction that has not ended, so that the
			// migration waits in the middle, holding the lock.
			holder := apptest.Hold(t, db, `CREATE TABLE shop.item ()`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- migrate.Up(ctx, proxy.DSN(url), source(), patience, quiet()) }()
			apptest.WaitForBlocked(t, db, 1)
			end(proxy)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			holder.Rollback()
			up(t, url, source())
			wantComplete(t, db)
		})
	}
}
