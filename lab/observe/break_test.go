package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// chargeForNothing: the processor charges and does not answer in time; the client does not repeat, and IDEMPOTENCY_TTL
// passes.
func chargeForNothing(t *testing.T, r *rig) func() {
	t.Helper()
	r.load.faulty.Store(true)
	status, body := r.load.send(t.Context(), r.of("payments"), pay("never-again", cardTimeout, 4200))
	if status != http.StatusGatewayTimeout {
		t.Errorf("the processor timed out, and the answer is %d %s", status, body)
	}
	return func() { r.load.faulty.Store(false) }
}

// holdRows: transactions lock rows that all callers of a service need.
func holdRows(t *testing.T, r *rig) func() {
	t.Helper()
	release := r.hold(t, `SELECT FROM counts.count_values WHERE item_id = '`+hotCounter+`' FOR UPDATE`,
		`SELECT FROM events.status FOR UPDATE`, `SELECT FROM pyggpot.pot FOR UPDATE`,
		`SELECT FROM payments.idempotency_records FOR UPDATE`)
	// A PUT waits for the row, too.
	for range 4 {
		go r.load.send(t.Context(), r.of("counts"),
			request{method: http.MethodPut, path: "/api/v1/internal/counts/hot", body: `{"value":1}`})
	}
	return release
}

// holdItems: a transaction locks items of iidy, and workers report what they did with these, one by one and in batches.
func holdItems(t *testing.T, r *rig) func() {
	t.Helper()
	const batch, one = "/iidy/v1/batch/lists/held", "/iidy/v1/lists/held/one"
	const reporters = 16
	r.load.send(t.Context(), r.of("iidy"), post(one, ""))
	r.load.send(t.Context(), r.of("iidy"), post(batch, lines(0, 40)))
	release := r.hold(t, `SELECT FROM iidy.lists WHERE list = 'held' FOR UPDATE`)
	leave := r.crowd(t, "iidy", reporters, post(batch+"?action=increment", lines(0, 40)))
	for range 4 {
		go r.load.send(t.Context(), r.of("iidy"), post(one+"?action=increment", ""))
	}
	return func() {
		release()
		leave()
	}
}

// crowd lets n callers send a request again and again, until the returned function is called.
func (r *rig) crowd(t *testing.T, service string, n int, q request) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	set := r.of(service)
	for range n {
		calling.Go(func() {
			for ctx.Err() == nil {
				r.load.send(ctx, set, q)
			}
		})
	}
	return func() {
		cancel()
		calling.Wait()
	}
}

// letClaimsRunOut: leases of iidy's workers expire, and others take over their items, three times. A claim that begins
// while a lease ends finds a part of its items, so items are counted, not claims. The first worker reports items that
// it no longer holds.
func letClaimsRunOut(t *testing.T, r *rig) func() {
	t.Helper()
	const batch, many, times = "/iidy/v1/batch/lists/stalled", 10_000, 4
	addr := r.of("iidy").Ready()[0].API
	r.load.to(t.Context(), addr, post(batch, lines(0, many)))
	first, items := "", 0
	eventually(t, "all items are claimed again and again", 2*fireWithin, func() bool {
		a := r.load.call(t.Context(), addr, post(fmt.Sprintf("%s?action=claim&count=%d&lease=1s", batch, many), ""))
		if claim := a.header.Get(claimHeader); claim != "" {
			first, items = cmp.Or(first, claim), items+strings.Count(a.body, "\n")
		}
		return items >= times*many
	})
	r.load.to(t.Context(), addr, remove(batch+"?claim="+first, lines(0, 100)))
	return func() {}
}

// takeConnections: tables are locked whole, as by a careless ALTER TABLE, and callers keep coming; long batches take
// what is left of iidy.
func takeConnections(t *testing.T, r *rig) func() {
	t.Helper()
	var tables []string
	for _, s := range services.All() {
		tables = append(tables, s.Tables...)
	}
	release := r.hold(t, `LOCK TABLE `+strings.Join(tables, ", ")+` IN ACCESS EXCLUSIVE MODE`)
	leave := []func(){release}
	for service, q := range map[string]request{
		"counts":   get("/api/v1/internal/counts/" + hotCounter),
		"events":   get("/events/1"),
		"iidy":     get("/iidy/v1/lists/files"),
		"payments": get("/v1/payments?ride_id=ride"),
		"pyggpot":  post("/pyggpot.pot.Pot/ListPots", `{"page":1,"limit":10}`),
	} {
		leave = append(leave, r.crowd(t, service, 40, q))
	}
	one := r.of("iidy").Replicas()[0].Status().API
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for range 4 { // two more than BULK_IN_FLIGHT, to one replica
		calling.Go(func() { r.load.to(ctx, one, post("/iidy/v1/batch/lists/long", lines(0, 20_000))) })
	}
	return func() {
		cancel()
		for _, end := range leave {
			end()
		}
		calling.Wait()
	}
}

// hangPayments: the server's side of payments' connections stands still, as on a machine that swaps. New ones are
// stopped as they come.
func hangPayments(t *testing.T, r *rig) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := map[int64]bool{}
	var stopping sync.WaitGroup
	stopping.Go(func() {
		for ticker := time.Tick(50 * time.Millisecond); ctx.Err() == nil; <-ticker {
			for _, pid := range r.numbers(t, `SELECT pid FROM pg_stat_activity WHERE application_name = 'payments'
				AND (state = 'idle in transaction' OR query LIKE '%idempotency_records%')`) {
				if !stopped[pid] && syscall.Kill(int(pid), syscall.SIGSTOP) == nil {
					stopped[pid] = true
				}
			}
		}
	})
	return func() {
		cancel()
		stopping.Wait()
		for pid := range stopped {
			_ = syscall.Kill(int(pid), syscall.SIGCONT) // one that has ended needs no more
		}
	}
}

// loseLeases: a replica of pyggpot waits so long for a row that its lease runs out, and what it then does is refused.
// It takes another lease, dies, and the other replica takes that over.
func loseLeases(t *testing.T, r *rig) func() {
	t.Helper()
	set := r.of("pyggpot")
	first, second := set.Replicas()[0], set.Replicas()[1]
	const leased = `SELECT count(*) FROM pyggpot.pot WHERE pot_name = 'Stalled' AND lock IS NOT NULL AND lock_expire_time `
	_, made := r.load.to(t.Context(), first.Status().API,
		post("/pyggpot.pot.Pot/CreatePot", `{"pot_name":"Stalled","max_coins":1000}`))
	var pot struct {
		ID int `json:"pot_id"`
	}
	if err := json.Unmarshal([]byte(made), &pot); err != nil {
		t.Fatalf("%s: %v", made, err)
	}
	add := post("/pyggpot.coin.Coin/AddCoins", fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":1}]}`, pot.ID))
	stall := func() (release func()) {
		release = r.hold(t, `LOCK TABLE pyggpot.coin IN ACCESS EXCLUSIVE MODE`)
		go r.load.to(t.Context(), first.Status().API, add)
		eventually(t, "it has the lease", fireWithin, func() bool { return r.number(t, leased+`> clock_timestamp()`) == 1 })
		return release
	}

	r.load.changing.Store(true)
	defer r.load.changing.Store(false)
	release := stall()
	go r.load.to(t.Context(), second.Status().API, add) // tries for a second, and is answered `aborted`
	eventually(t, "the lease is over", fireWithin, func() bool { return r.number(t, leased+`<= clock_timestamp()`) == 1 })
	eventually(t, "callers meet the lease, and one takes it over when it has expired", fireWithin, func() bool {
		fired := r.fired(t, time.Second)
		return fired["RowlockLeaseConflicts"] && fired["RowlockLeaseTakeOvers"]
	})
	released := time.Now()
	release()
	r.awaitScrapes(t, released, enough) // with the replica's own figures

	release = stall()
	if err := first.Kill(); err != nil {
		t.Error(err)
	}
	release()
	eventually(t, "the other replica takes the lease over", fireWithin, func() bool {
		status, _ := r.load.to(t.Context(), second.Status().API, add)
		return status == http.StatusOK
	})
	return func() {}
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

// stallWorkers: as when their node is paused. Events pend; then none is added any more, and those that are there stay.
// Meanwhile the stand-in for Kubernetes reports that counts' autoscaler wants its maximum.
func stallWorkers(t *testing.T, r *rig) func() {
	t.Helper()
	r.kube.wanted.Store(mostReplicas)
	ends := []func() error{func() error {
		r.kube.wanted.Store(perService)
		r.load.silent.Store(false)
		return nil
	}}
	for _, f := range r.fleets {
		if f.component == "work" {
			for _, one := range f.set.Replicas() {
				if err := one.Pause(); err != nil {
					t.Error(err)
				}
				ends = append(ends, one.Resume)
			}
		}
	}
	eventually(t, "events pend", fireWithin, func() bool {
		return len(r.numbers(t, `SELECT id FROM events.events WHERE value IS NULL LIMIT 10`)) == 10
	})
	r.load.silent.Store(true)
	return func() {
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
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
