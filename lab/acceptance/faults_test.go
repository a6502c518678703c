package acceptance

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// load increases random counters by one from n clients until stop is called,
// which returns when every answer is in the ledger.
func load(t *testing.T, c *client, n int, apis func() []string, ids []string) (book *ledger, stop func()) {
	t.Helper()
	book = newLedger()
	whole := t.Context() // what was begun is brought to an end
	ctx, cancel := context.WithCancel(whole)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				list := apis()
				id := ids[rand.IntN(len(ids))]
				a := c.change(whole, list[rand.IntN(len(list))], id, "increase", 0)
				book.note(id, 1, a)
				if a.outcome != acknowledged {
					pause(ctx, 5*time.Millisecond) // a client that is refused does not storm
				}
			}
		})
	}
	return book, func() {
		cancel()
		wg.Wait()
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *ledger) count(o outcome) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[o]
}

// A replica's database is killed under load and comes back: while it is away
// the answers are quick and definite, afterwards the service goes on by itself,
// and nothing that was acknowledged is lost.
func TestDatabaseKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := dbtest.Server(t)
	set := counts(t, 2, server.URL("postgres"), nil)
	c, apis := newClient(t), addrs(set)
	ids := items(t, c, apis[0], 8)
	flips := watchListing(t, set)

	book, stop := load(t, c, 16, func() []string { return apis }, ids)
	for _, fault := range []struct {
		name string
		kill func() error
	}{{"immediate shutdown", server.Kill}, {"kill -9", server.Crash}} {
		enough := book.count(acknowledged) + 200
		eventually(t, "there is load", 20*time.Second, func() bool { return book.count(acknowledged) >= enough })
		if err := fault.kill(); err != nil {
			t.Fatal(err)
		}
		refusals := book.count(notApplied) + 50
		eventually(t, fault.name+": the answers are 503 while it is away", 10*time.Second, func() bool {
			return book.count(notApplied) >= refusals
		})
		a := c.change(t.Context(), apis[0], ids[0], "increase", 0)
		if a.status != http.StatusServiceUnavailable || a.code != "DATABASE_UNAVAILABLE" || a.took > 3*time.Second {
			t.Errorf("%s: while it is away: %+v", fault.name, a)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := book.count(acknowledged) + 200
		eventually(t, fault.name+": the service is back", 10*time.Second, func() bool { return book.count(acknowledged) >= again })
	}
	stop()
	book.check(t, c, apis[0], ids, true)
	for _, r := range set.Replicas() {
		if st := r.Status(); st.Starts != 1 {
			t.Errorf("%s was started %d times", st.Name, st.Starts)
		}
	}
	if n := flips(); n > 2*2 { // two outages, two replicas, at most one flip each
		t.Errorf("readiness flipped %d times", n)
	}
}

// watchListing counts how often a replica leaves the list.
func watchListing(t *testing.T, set *local.Set) (left func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	count := make(chan int, 1)
	go func() {
		n, before := 0, len(set.Backends())
		for ctx.Err() == nil {
			pause(ctx, 5*time.Millisecond)
			now := len(set.Backends())
			n += max(before-now, 0)
			before = now
		}
		count <- n
	}()
	return func() int {
		cancel()
		return <-count
	}
}

// Replicas get SIGTERM one after the other behind a balancer, which has nothing
// but their readiness to go by: no client notices.
func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	set := counts(t, 3, dbtest.Empty(t), map[string]string{"SHUTDOWN_DELAY": "1s"})
	addr := balanced(t, set)
	c := newClient(t)
	ids := items(t, c, addr, 8)
	book, stop := load(t, c, 16, func() []string { return []string{addr} }, ids)
	for _, r := range set.Replicas() {
		if err := syscall.Kill(r.Status().PID, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, r.Name()+" is back", 30*time.Second, func() bool {
			st := r.Status()
			return st.Ready && st.Starts == 2
		})
	}
	stop()
	book.wantAllAcknowledged(t, 500)
	book.check(t, c, addr, ids, true)
}

// Replicas are killed behind a balancer: what they had in hand is unknown,
// nothing else, and nothing is counted twice.
func TestReplicasKilledUnderLoad(t *testing.T) {
	t.Parallel()
	set := counts(t, 3, dbtest.Empty(t), nil)
	addr := balanced(t, set)
	c := newClient(t)
	ids := items(t, c, addr, 8)
	book, stop := load(t, c, 16, func() []string { return []string{addr} }, ids)
	for i, r := range append(set.Replicas(), set.Replicas()...) {
		more := book.count(acknowledged) + 100
		eventually(t, "there is load", 20*time.Second, func() bool { return book.count(acknowledged) >= more })
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, r.Name()+" is back", 30*time.Second, func() bool {
			st := r.Status()
			return st.Ready && st.Starts == 2+i/3
		})
	}
	stop()
	book.check(t, c, addr, ids, true)
	if n := book.count(unknown); n > 6*16 { // six kills, sixteen clients with one request each
		t.Errorf("%d unknown outcomes are more than were in hand", n)
	}
}

// balanced puts a balancer before the set and returns its address.
func balanced(t *testing.T, set *local.Set) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := local.NewBalancer("counts", set)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Errorf("stop the balancer: %v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
