package observe

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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
		{{"tables are locked whole", []string{"RowlockPoolSaturated", "RowlockUnsettledChargesUnknown"}, takeConnections}},
		{
			{"payments' connections hang", []string{"RowlockPaymentHangs", "RowlockPaymentsSlow"}, hangPayments},
			{"a stranger holds iidy's items", []string{"RowlockBatchesSlow"}, holdItems},
		},
		{{"a replica of each workload dies", []string{"RowlockTargetDown"}, killReplicas}},
		{{
			"PostgreSQL dies",
			[]string{"RowlockOutcomesUnknown", "RowlockErrorBudgetBurnsFast", "RowlockErrorBudgetBurns"},
			killPostgres,
		}},
	}
}

// breakThings does one list after the other and waits for the alerts of each. Every alert of the chart has a fault.
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
		ends := make([]func(), len(list))
		var beginning sync.WaitGroup
		for i, f := range list {
			beginning.Go(func() { ends[i] = f.begin(t, r) })
		}
		beginning.Wait()
		if slices.ContainsFunc(ends, func(end func()) bool { return end == nil }) {
			t.FailNow() // it said why
		}
		for _, f := range list {
			r.awaitAlerts(t, f, began)
		}
		r.awaitScrapes(t, began, enough)
		for _, end := range ends {
			end()
		}
		time.Sleep(*between)
	}
	for name := range ruleExprs(t, "alert") {
		if !provoked[name] {
			t.Errorf("nothing provokes %s", name)
		}
	}
	t.Logf("%d alerts have fired, each for its reason", len(provoked))
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

// enough scrapes make a rate: what happens must be in that many.
const enough = 2

// awaitScrapes waits until Prometheus has looked n times since then at everybody who answers.
func (r *rig) awaitScrapes(t *testing.T, since time.Time, n float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%g scrapes", n), fireWithin, func() bool {
		now := time.Now()
		expr := fmt.Sprintf(`min(count_over_time(up{namespace=%q}[%dms]) and on (instance) up == 1)`, namespace, now.Sub(since).Milliseconds()+1)
		list, err := r.prom.Query(t.Context(), expr, now)
		if err != nil {
			t.Error(err)
		}
		return len(list) == 1 && list[0].Value >= n
	})
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
