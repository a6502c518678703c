package acceptance

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
)

// A proxy swallows replies to statements that PostgreSQL has carried out, or
// loses them on the way there. Increases are such statements, each its own
// transaction: none is made twice.
func TestLostRepliesDoubleNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		when faultproxy.When
		how  faultproxy.How
	}{
		{"replies, FIN", faultproxy.AfterStatement, faultproxy.FIN},
		{"replies, RST", faultproxy.AfterStatement, faultproxy.RST},
		{"requests, FIN", faultproxy.BeforeStatement, faultproxy.FIN},
		{"requests, RST", faultproxy.BeforeStatement, faultproxy.RST},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			proxy := faultproxy.New(t, dsn)
			set := counts(t, 2, proxy.DSN(dsn), map[string]string{"MIGRATE_DATABASE_URL": dsn})
			c, apis := newClient(t), addrs(set)
			ids := items(t, c, apis[0], 6)

			proxy.CutEvery(7, tt.when, tt.how)
			book, stop := load(t, c, 12, func() []string { return apis }, ids)
			const enough = 40
			eventually(t, "enough was cut", 30*time.Second, func() bool { return proxy.Cuts() >= enough })
			proxy.StopCutting()
			again := book.count(acknowledged) + 100
			eventually(t, "the service is as before", 10*time.Second, func() bool { return book.count(acknowledged) >= again })
			stop()

			book.check(t, c, apis[0], ids, true)
			// From here a request that was lost and a reply that was lost look the same. Behind each stands a cut, and a group is cut as a whole.
			if n := book.count(unknown); n == 0 || n+book.count(notApplied) > proxy.Cuts()*12 {
				t.Errorf("%d unknown and %d refused by %d cuts", n, book.count(notApplied), proxy.Cuts())
			}
		})
	}
}

// The same for COMMITs: what is created, and what a PUT sets, runs in a
// transaction. An answer of success or of refusal is the truth, whatever became
// of the reply; "unknown" may be either.
func TestLostCommitsAreToldAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		when faultproxy.When
		how  faultproxy.How
	}{
		{"replies, FIN", faultproxy.AfterCommit, faultproxy.FIN},
		{"replies, RST", faultproxy.AfterCommit, faultproxy.RST},
		{"requests, FIN", faultproxy.BeforeCommit, faultproxy.FIN},
		{"requests, RST", faultproxy.BeforeCommit, faultproxy.RST},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			proxy := faultproxy.New(t, dsn)
			set := counts(t, 2, proxy.DSN(dsn), map[string]string{"MIGRATE_DATABASE_URL": dsn})
			c, apis := newClient(t), addrs(set)
			ids := items(t, c, apis[0], writers)

			proxy.CutEvery(3, tt.when, tt.how)
			for name, change := range map[string]func(writer, n int) outcome{
				"POST": creates(t, c, apis), "PUT": puts(t, c, apis, ids),
			} {
				by := cutting(t, proxy, change)
				t.Logf("%s: acknowledged %d, not applied %d, unknown %d", name, by[acknowledged], by[notApplied], by[unknown])
				if by[refused] != 0 || by[acknowledged] == 0 {
					t.Errorf("%s: %d were refused, %d acknowledged", name, by[refused], by[acknowledged])
				}
				// What never came to be committed cannot have been a success.
				if tt.when == faultproxy.BeforeCommit && by[notApplied]+by[unknown] == 0 {
					t.Errorf("%s: every COMMIT that was lost was acknowledged", name)
				}
			}
		})
	}
}

const writers = 8

// cutting lets the writers make one change after the other until the proxy has
// cut often enough, and returns how the changes ended.
func cutting(t *testing.T, proxy *faultproxy.Proxy, change func(writer, n int) outcome) map[outcome]int {
	t.Helper()
	const enough = 20
	begin, deadline := proxy.Cuts(), time.Now().Add(30*time.Second)
	by := map[outcome]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for n := 1; proxy.Cuts() < begin+enough && time.Now().Before(deadline); n++ {
				o := change(writer, n)
				mu.Lock()
				by[o]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if cuts := proxy.Cuts() - begin; cuts < enough {
		t.Fatalf("only %d of %d COMMITs were cut: this proves nothing", cuts, enough)
	}
	return by
}

// creates makes a counter that is new, and looks whether it is there.
func creates(t *testing.T, c *client, apis []string) func(writer, n int) outcome {
	t.Helper()
	return func(writer, n int) outcome {
		id := fmt.Sprintf("fresh-%d-%d", writer, n)
		a := c.do(t.Context(), http.MethodPost, "http://"+apis[n%len(apis)]+"/api/v1/internal/counts", `{"itemId":"`+id+`"}`)
		_, there := look(t, c, apis[(n+1)%len(apis)], id)
		if (a.outcome == acknowledged && !there) || (a.outcome == notApplied && there) || a.outcome == refused || a.err != nil {
			t.Errorf("create %s: %+v, but there: %t", id, a, there)
		}
		return a.outcome
	}
}

// puts gives the writer's own counter another value, and reads it.
func puts(t *testing.T, c *client, apis, ids []string) func(writer, n int) outcome {
	t.Helper()
	before := make([]int64, len(ids)) // by writer
	return func(writer, n int) outcome {
		id, want := ids[writer], int64(n)
		a := c.do(t.Context(), http.MethodPut, "http://"+apis[n%len(apis)]+"/api/v1/internal/counts/"+id, fmt.Sprintf(`{"value":%d}`, want))
		got, there := look(t, c, apis[(n+1)%len(apis)], id)
		applied, kept := got == want, got == before[writer]
		if !there || (a.outcome == acknowledged && !applied) || (a.outcome == notApplied && !kept) || (!applied && !kept) || a.err != nil {
			t.Errorf("PUT %d to %s, which was %d: %+v, but it is %d", want, id, before[writer], a, got)
		}
		before[writer] = got
		return a.outcome
	}
}

// look reads a counter that may not be there. No COMMIT is in the way of a read.
func look(t *testing.T, c *client, addr, id string) (value int64, there bool) {
	t.Helper()
	a := c.do(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/internal/counts/"+id, "")
	if a.status != http.StatusOK && a.status != http.StatusNotFound {
		t.Errorf("read %s: %+v", id, a)
	}
	return a.value, a.status == http.StatusOK
}
