package observe

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fireWithin bounds the time from a cause to its alert. Events are counted every ten seconds; other figures are newer.
const fireWithin = 40 * time.Second

// fault is injected into the system for as long as its alerts take to fire.
type fault struct {
	name   string
	alerts []string
	// begin injects it and returns what ends it.
	begin func(t *testing.T, r *rig) (end func())
}

// rounds returns the faults. Those of one round are injected together: they are independent, and together take less
// time.
func rounds() [][]fault {
	first := []fault{{"autoscalers want the maximum", []string{"RowlockReplicasAtMaximum"}, wantMostReplicas}}
	second := []fault{{
		"other transactions lock rows",
		[]string{"RowlockLockWaits", "RowlockLockConflicts", "RowlockLockedOut", "RowlockSlow"},
		holdRows,
	}}
	for _, s := range subjects() {
		first, second = append(first, s.faults...), append(second, s.stalls...)
	}
	return [][]fault{
		first, second,
		{{"tables are locked whole", []string{"RowlockPoolSaturated", "RowlockUnsettledChargesUnknown"}, takeConnections}},
		{{"a replica of each workload dies", []string{"RowlockTargetDown"}, killReplicas}},
		{{
			"PostgreSQL dies",
			[]string{"RowlockOutcomesUnknown", "RowlockErrorBudgetBurnsFast", "RowlockErrorBudgetBurns"},
			killPostgres,
		}},
	}
}

// injectFaults injects one round after the other and waits for the alerts of each. Every alert of the chart has a
// fault.
func injectFaults(t *testing.T, r *rig) {
	t.Helper()
	caused := map[string]bool{}
	for _, round := range rounds() {
		for _, f := range round {
			for _, name := range f.alerts {
				caused[name] = true
				r.awaitSilence(t, name)
			}
		}
		began := time.Now()
		ends := make([]func(), len(round))
		var beginning sync.WaitGroup
		for i, f := range round {
			beginning.Go(func() { ends[i] = f.begin(t, r) })
		}
		beginning.Wait()
		if slices.ContainsFunc(ends, func(end func()) bool { return end == nil }) {
			t.FailNow() // it has reported why
		}
		r.awaitAlerts(t, round, began)
		r.awaitScrapes(t, began, enough)
		for _, end := range ends {
			end()
		}
	}
	for _, one := range alertRules(t) {
		if !caused[one.Alert] {
			t.Errorf("no fault makes %s fire", one.Alert)
		}
	}
}

// awaitSilence waits until an alert of an earlier fault fires no more. The burn rates of error budgets fall slowly and
// are left out.
func (r *rig) awaitSilence(t *testing.T, name string) {
	t.Helper()
	if strings.HasPrefix(name, "RowlockErrorBudget") {
		return
	}
	eventually(t, name+" of an earlier fault is over", fireWithin, func() bool { return !r.fired(t, time.Second)[name] })
}

// awaitAlerts waits until the alerts of a round have fired.
func (r *rig) awaitAlerts(t *testing.T, round []fault, began time.Time) {
	t.Helper()
	missing := map[string]string{}
	for _, f := range round {
		for _, name := range f.alerts {
			missing[name] = f.name
		}
	}
	for ticker := time.Tick(200 * time.Millisecond); len(missing) > 0; <-ticker {
		after := time.Since(began)
		for name := range r.fired(t, after) {
			if what, ok := missing[name]; ok {
				t.Logf("%s: after %s fires %s", what, after.Round(100*time.Millisecond), name)
				delete(missing, name)
			}
		}
		if after > 2*fireWithin {
			t.Errorf("within %s do not fire %v", after, missing)
			return
		}
	}
}

// enough scrapes make a rate: what happens must be in that many.
const enough = 2

// awaitScrapes waits until Prometheus has scraped each replica that answers n times since then.
func (r *rig) awaitScrapes(t *testing.T, since time.Time, n float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%g scrapes", n), fireWithin, func() bool {
		now := time.Now()
		expr := fmt.Sprintf(`min(count_over_time(up{namespace=%q}[%dms]) and on (instance) up == 1)`, namespace,
			now.Sub(since).Milliseconds()+1)
		list := r.vector(t, expr, now)
		return len(list) == 1 && float64(list[0].Value) >= n
	})
}

// fired returns the alerts that fired at some time of the last while.
func (r *rig) fired(t *testing.T, while time.Duration) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range r.vector(t, fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%dms]))`,
		max(while, time.Second).Milliseconds()), time.Now()) {
		names[string(s.Metric["alertname"])] = true
	}
	return names
}
