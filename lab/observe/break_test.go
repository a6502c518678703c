package observe

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// holdRows: transactions lock rows that all callers of a service need.
func holdRows(t *testing.T, r *rig) func() {
	t.Helper()
	var rows []string
	for _, s := range subjects() {
		rows = append(rows, s.rows)
	}
	return r.hold(t, rows...)
}

// takeConnections: tables are locked whole, as by a careless ALTER TABLE, and callers keep coming.
func takeConnections(t *testing.T, r *rig) func() {
	t.Helper()
	var tables []string
	for _, s := range services.All() {
		tables = append(tables, s.Tables...)
	}
	ends := []func(){r.hold(t, `LOCK TABLE `+strings.Join(tables, ", ")+` IN ACCESS EXCLUSIVE MODE`)}
	for _, s := range subjects() {
		ends = append(ends, r.crowd(t, s.service, 40, s.read))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// crowd lets n callers send a request again and again, until the returned function is called.
func (r *rig) crowd(t *testing.T, service string, n int, q request) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for range n {
		calling.Go(func() {
			for ctx.Err() == nil {
				r.load.send(ctx, service, q)
			}
		})
	}
	return func() {
		cancel()
		calling.Wait()
	}
}

// killReplicas: kill -9 of one of each. Until the end of the fault Prometheus looks where they were, as in a pod that
// is restarted.
func killReplicas(t *testing.T, r *rig) func() {
	t.Helper()
	r.freeze(true)
	for _, f := range r.fleets {
		if err := f.set.Replicas()[0].Kill(); err != nil {
			t.Error(err)
		}
	}
	return func() {
		r.freeze(false)
		restarted := fmt.Sprintf(`min(changes(process_start_time_seconds{namespace=%q,pod=~".*-a2x7k"}[5m]))`, namespace)
		eventually(t, "the replicas that were killed are scraped again", fireWithin, func() bool {
			list := r.vector(t, restarted, time.Now())
			return len(list) == 1 && list[0].Value >= 1
		})
	}
}

// killPostgres: it dies while COMMITs are on their way. They are made to take long, by waiting for a standby that is
// not there.
func killPostgres(t *testing.T, r *rig) func() {
	t.Helper()
	r.configure(t, `ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	eventually(t, "COMMITs wait", fireWithin, func() bool {
		return r.number(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) > 4
	})
	died := time.Now()
	if err := syscall.Kill(r.database.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-r.database.Done()
	r.awaitScrapes(t, died, enough+1) // of replicas whose requests fail
	if err := r.database.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.configure(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	return func() {}
}
