package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fireWithin is how long an alert may take after its cause. Events are counted every ten seconds; the rest takes less.
const fireWithin = 40 * time.Second

// fault is something done to the system, for as long as its alerts take to fire.
type fault struct {
	name   string
	alerts []string
	// begin does it and returns what ends it.
	begin func(t *testing.T, r *rig) (end func())
}

// faults are what is broken. Those of a list go on beside each other: they have nothing to do with one another, and save time.
func faults() [][]fault {
	return [][]fault{
		{
			{
				"events' workers stall, and counts is scaled to the maximum",
				[]string{"RowlockEventsNotWorked", "RowlockEventsPending", "RowlockServiceDown", "RowlockReplicasAtMaximum"},
				stallWorkers,
			},
			{"the processor fails, and a card is charged for nothing", []string{"RowlockUnsettledCharges"}, chargeForNothing},
			{"workers of iidy let their claims run out", []string{"RowlockClaimsRunOut"}, letClaimsRunOut},
			{"holders of leases stall and die", []string{"RowlockLeaseConflicts", "RowlockLeaseTakeOvers"}, loseLeases},
		},
		{{
			"a stranger holds rows",
			[]string{"RowlockLockWaits", "RowlockLockConflicts", "RowlockLockedOut", "RowlockSlow"},
			holdRows,
		}},
		{{"tables are locked whole", []string{"RowlockPoolSaturated"}, takeConnections}},
		{{"payments' connections hang", []string{"RowlockPaymentHangs", "RowlockPaymentsSlow"}, hangPayments}},
		{{"a replica of each workload dies", []string{"RowlockTargetDown"}, killReplicas}},
		{{
			"PostgreSQL dies",
			[]string{"RowlockOutcomesUnknown", "RowlockErrorBudgetBurnsFast", "RowlockErrorBudgetBurns"},
			killPostgres,
		}},
	}
}

// breakThings does one list after the other and waits for the alerts of each. Every alert of the chart has a fault, or a reason.
func breakThings(t *testing.T, r *rig) {
	t.Helper()
	provoked := map[string]bool{}
	for _, list := range faults() {
		for _, f := range list {
			for _, name := range f.alerts {
				provoked[name] = true
				r.awaitSilence(t, name)
			}
		}
		began := time.Now()
		ends := make([]func(), 0, len(list))
		for _, f := range list {
			ends = append(ends, f.begin(t, r))
		}
		for _, f := range list {
			r.awaitAlerts(t, f, began)
		}
		for _, end := range ends {
			end()
		}
		time.Sleep(*between)
	}
	for name := range ruleExprs(t, "alert") {
		if !provoked[name] && leftToPromtool()[name] == "" {
			t.Errorf("nothing provokes %s", name)
		}
	}
	t.Logf("%d alerts have fired, each for its reason", len(provoked))
}

// leftToPromtool are alerts that no fault here makes fire, with the reason; testdata/rules has them.
func leftToPromtool() map[string]string {
	return map[string]string{
		"RowlockBatchesSlow":             "no batch outlives DB_STATEMENT_TIMEOUT here, which is below its 2.5 s",
		"RowlockUnsettledChargesUnknown": "every replica must fail to count for hours",
	}
}

// awaitSilence waits until an alert that an earlier fault may have touched off fires no more. What burns an error budget goes on for long.
func (r *rig) awaitSilence(t *testing.T, name string) {
	t.Helper()
	if strings.HasPrefix(name, "RowlockErrorBudget") {
		return
	}
	eventually(t, name+" of an earlier fault is over", fireWithin, func() bool { return !r.fired(t, time.Second)[name] })
}

// awaitAlerts waits until the alerts of a fault have fired.
func (r *rig) awaitAlerts(t *testing.T, f fault, began time.Time) {
	t.Helper()
	var missing []string
	for deadline := time.Now().Add(fireWithin); ; time.Sleep(200 * time.Millisecond) {
		fired := r.fired(t, time.Since(began))
		missing = slices.DeleteFunc(slices.Clone(f.alerts), func(name string) bool { return fired[name] })
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("%s: %s does not fire within %s", f.name, strings.Join(missing, ", "), fireWithin)
		return
	}
	t.Logf("%s: after %s fires %s", f.name, time.Since(began).Round(100*time.Millisecond), strings.Join(f.alerts, ", "))
}

// fired are the alerts that fired at some time of the last while.
func (r *rig) fired(t *testing.T, while time.Duration) map[string]bool {
	t.Helper()
	expr := fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%dms]))`, max(while, time.Second).Milliseconds())
	list, err := r.prom.Query(t.Context(), expr, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range list {
		names[s.Labels["alertname"]] = true
	}
	return names
}

// chargeForNothing: the processor charges and does not answer in time; the client never comes back, and IDEMPOTENCY_TTL passes.
func chargeForNothing(t *testing.T, r *rig) func() {
	t.Helper()
	r.load.faulty.Store(true)
	status, body := r.load.send(t.Context(), r.of("payments"), pay("never-again", cardTimeout, 4200))
	if status != http.StatusGatewayTimeout {
		t.Errorf("the processor timed out, and the answer is %d %s", status, body)
	}
	return func() { r.load.faulty.Store(false) }
}

// holdRows: one transaction for each service's rows that everybody wants.
func holdRows(t *testing.T, r *rig) func() {
	t.Helper()
	const item = "/iidy/v1/lists/files/held"
	r.load.send(t.Context(), r.of("iidy"), post(item, ""))
	release := r.hold(
		t,
		`SELECT FROM counts.count_values WHERE item_id = '`+hotCounter+`' FOR UPDATE`,
		`SELECT FROM events.status FOR UPDATE`,
		`SELECT FROM iidy.lists FOR UPDATE`,
		`SELECT FROM pyggpot.pot FOR UPDATE`,
		`SELECT FROM payments.idempotency_records FOR UPDATE`,
	)
	// Nothing waits for what it does not ask for.
	for range 4 {
		go r.load.send(t.Context(), r.of("iidy"), post(item+"?action=increment", ""))
		go r.load.send(t.Context(), r.of("counts"), request{method: http.MethodPut, path: "/api/v1/internal/counts/hot", body: `{"value":1}`})
	}
	time.Sleep(2 * time.Second)
	return release
}

// letClaimsRunOut: workers of iidy take longer than their lease, and others take over what they had, three times. The last one reports
// what it holds no more.
func letClaimsRunOut(t *testing.T, r *rig) func() {
	t.Helper()
	const batch, many = "/iidy/v1/batch/lists/stalled", 10_000
	addr := r.of("iidy").Backends()[0].Addr
	claimed := func(lease string) string {
		_, claim := r.load.claimed(t.Context(), addr, post(fmt.Sprintf("%s?action=claim&count=%d&lease=%s", batch, many, lease), ""))
		return claim
	}
	r.load.to(t.Context(), addr, post(batch, lines(0, many)))
	claim := claimed("1s")
	for _, lease := range []string{"1s", "1s", "60s"} {
		eventually(t, "others take over", fireWithin, func() bool { return claimed(lease) != "" })
	}
	r.load.to(t.Context(), addr, request{method: http.MethodDelete, path: batch + "?claim=" + claim, body: lines(0, 100)})
	return func() {}
}

// takeConnections: tables are locked whole, as by a careless ALTER TABLE, and callers keep coming; long batches take what is left of iidy.
func takeConnections(t *testing.T, r *rig) func() {
	t.Helper()
	release := r.hold(
		t, `LOCK TABLE counts.count_values, events.status, events.events, iidy.lists, payments.payments, payments.processor_charges,
			payments.idempotency_records, pyggpot.pot, pyggpot.coin IN ACCESS EXCLUSIVE MODE`,
	)
	var calling sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for service, q := range map[string]request{
		"counts":   get("/api/v1/internal/counts/" + hotCounter),
		"events":   get("/events/1"),
		"iidy":     get("/iidy/v1/lists/files"),
		"payments": get("/v1/payments?ride_id=ride"),
		"pyggpot":  post("/pyggpot.pot.Pot/ListPots", `{"page":1,"limit":10}`),
	} {
		set := r.of(service)
		for range 40 {
			calling.Go(func() {
				for ctx.Err() == nil {
					r.load.send(ctx, set, q)
				}
			})
		}
	}
	one := r.of("iidy").Replicas()[0].Status().API
	for range 4 { // two more than BULK_IN_FLIGHT, to one replica
		calling.Go(func() {
			r.load.to(ctx, one, post("/iidy/v1/batch/lists/long", lines(0, 20_000)))
		})
	}
	time.Sleep(2 * time.Second)
	return func() {
		cancel()
		release()
		calling.Wait()
	}
}

// hangPayments: the server's side of payments' connections stands still, as on a machine that swaps. New ones are stopped as they come.
func hangPayments(t *testing.T, r *rig) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := map[int]bool{}
	var stopping sync.WaitGroup
	stopping.Go(func() {
		for ctx.Err() == nil {
			for _, pid := range r.numbers(t, `SELECT pid FROM pg_stat_activity WHERE application_name = 'payments'
				AND (state = 'idle in transaction' OR query LIKE '%idempotency_records%')`) {
				if !stopped[pid] && syscall.Kill(pid, syscall.SIGSTOP) == nil {
					stopped[pid] = true
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		stopping.Wait()
		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that has ended needs no more
		}
	}
}

// loseLeases: a replica of pyggpot waits so long for a row that its lease runs out, and what it then does is refused. It takes another
// lease, dies, and the other replica takes that over.
func loseLeases(t *testing.T, r *rig) func() {
	t.Helper()
	set := r.of("pyggpot")
	first, second := set.Replicas()[0], set.Replicas()[1]
	const leased = `SELECT count(*) FROM pyggpot.pot WHERE pot_name = 'Stalled' AND lock IS NOT NULL AND lock_expire_time `
	_, made := r.load.to(t.Context(), first.Status().API, post("/pyggpot.pot.Pot/CreatePot", `{"pot_name":"Stalled","max_coins":1000}`))
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
	go r.load.to(t.Context(), second.Status().API, add) // tries for a second, and is told `aborted`
	eventually(t, "the lease is over", fireWithin, func() bool { return r.number(t, leased+`<= clock_timestamp()`) == 1 })
	eventually(t, "everybody tries in vain, and takes over what has run out", fireWithin, func() bool {
		fired := r.fired(t, time.Second)
		return fired["RowlockLeaseConflicts"] && fired["RowlockLeaseTakeOvers"]
	})
	release()
	time.Sleep(2 * interval) // the replica is scraped with what it says of it

	release = stall()
	if err := first.Kill(); err != nil {
		t.Error(err)
	}
	release()
	eventually(t, "the other one takes the lease over", fireWithin, func() bool {
		status, _ := r.load.to(t.Context(), second.Status().API, add)
		return status == http.StatusOK
	})
	return func() {}
}

// killReplicas: kill -9 of one of each. Until the end of the fault Prometheus looks where they were, as in a pod that is restarted.
func killReplicas(t *testing.T, r *rig) func() {
	t.Helper()
	r.freeze(true)
	for _, f := range r.fleets {
		if err := f.set.Replicas()[0].Kill(); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(2 * time.Second)
	return func() { r.freeze(false) }
}

// stallWorkers: as when their node is paused. Events come in, and nobody works; then none come any more, and those that are there wait.
// Meanwhile counts' autoscaler wants all that it may have, which the stand-in for Kubernetes says.
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

// killPostgres: it dies while COMMITs are on their way. They are made to take long, by waiting for a standby that is not there.
func killPostgres(t *testing.T, r *rig) func() {
	t.Helper()
	r.configure(t, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	eventually(t, "COMMITs wait", fireWithin, func() bool {
		return r.number(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) > 4
	})
	if err := r.database.Crash(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if err := r.database.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.configure(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	return func() {}
}

// configure changes a setting of the server, in several tries where connections are of a server that died.
func (r *rig) configure(t *testing.T, statement string) {
	t.Helper()
	eventually(t, statement, fireWithin, func() bool {
		conn, err := r.stranger.Conn(t.Context())
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_, err = conn.ExecContext(t.Context(), statement)
		if err == nil {
			_, err = conn.ExecContext(t.Context(), `SELECT pg_reload_conf()`)
		}
		return err == nil
	})
}

// number reads one.
func (r *rig) number(t *testing.T, query string) int {
	t.Helper()
	list := r.numbers(t, query)
	if len(list) != 1 {
		t.Fatalf("%s: %v", query, list)
	}
	return list[0]
}

// numbers reads some.
func (r *rig) numbers(t *testing.T, query string) (list []int) {
	t.Helper()
	tx, err := r.stranger.BeginTx(t.Context(), nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return nil
	}
	defer func() { _ = rows.Close() }()
	for n := 0; rows.Next() && err == nil; list = append(list, n) {
		err = rows.Scan(&n)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return list
}

// hold runs statements, each in a transaction of its own that stays open until the returned function is called.
func (r *rig) hold(t *testing.T, statements ...string) (release func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var ends []func() error
	for _, statement := range statements {
		tx, err := r.stranger.BeginTx(ctx, nil)
		if err == nil {
			ends = append(ends, tx.Rollback)
			_, err = tx.ExecContext(ctx, statement)
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return func() {
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// unmoved are expressions that stay at zero in this test, with the reason.
func unmoved() map[string]string {
	return map[string]string{
		`rowlock_retries_total`:             "nothing deadlocks; lab/acceptance demands just that",
		`rowlock_coalesce_queue_full_total`: "1,024 waiting callers are not to be had here; platform/coalesce has a test",
		`rowlock_outcome_unknown_total`:     "which service had a COMMIT on its way when PostgreSQL died is chance; one had, an alert says",
	}
}

// panelsMove demands of every expression that it showed something other than zero in all that happened.
func panelsMove(t *testing.T, r *rig, all []*page, since, until time.Time) {
	t.Helper()
	still := 0
	everyTarget(all, func(where, expr string) {
		_, moved, err := r.hasData(t.Context(), expr, since, until)
		if err != nil || moved {
			return
		}
		still++
		for part := range unmoved() {
			if regexp.MustCompile(part).MatchString(expr) {
				return
			}
		}
		t.Errorf("%s: zero whatever happens: %s", where, expr)
	})
	t.Logf("%d expressions stayed at zero, each for a known reason", still)
}
