package observe

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
)

// fireWithin bounds the time from the causes to the alerts.
const fireWithin = 60 * time.Second

// fault is injected into the system until its alerts fire.
type fault struct {
	alerts []string
	// inject injects it until the test ends.
	inject func(t *testing.T, r *rig)
}

// injectFaults injects the faults of all services at once, and waits for their alerts. Promtool's tests have all
// alerts; these few show that the services' figures follow the causes.
func injectFaults(t *testing.T, r *rig) {
	t.Helper()
	var faults []fault
	for _, s := range subjects() {
		faults = append(faults, s.faults...)
	}
	faults = append(faults, fault{[]string{
		"RowlockLockWaits", "RowlockLockConflicts", "RowlockLockedOut", "RowlockSlow", "RowlockErrorBudgetBurnsFast",
		"RowlockErrorBudgetBurns",
	}, holdRows})
	var missing []string
	began := time.Now()
	for _, f := range faults {
		f.inject(t, r)
		missing = append(missing, f.alerts...)
	}
	for ticker := time.Tick(200 * time.Millisecond); len(missing) > 0; <-ticker {
		after := time.Since(began)
		for _, firing := range r.vector(t, `ALERTS{alertstate="firing"}`, time.Now()) {
			name := string(firing.Metric["alertname"])
			if i := slices.Index(missing, name); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
				t.Logf("%s fires after %s", name, after.Round(100*time.Millisecond))
			}
		}
		if after > fireWithin {
			t.Errorf("within %s do not fire %v", after, missing)
			return
		}
	}
}

// holdRows: transactions lock rows that all callers of a service need.
func holdRows(t *testing.T, r *rig) {
	t.Helper()
	for _, s := range subjects() {
		if s.rows != "" {
			apptest.Hold(t, r.other, s.rows) // until the test ends
		}
	}
}
