package prove

import (
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
)

// Check holds the outcome of one check.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// Effect says that it is a demand on the fault, not on the service.
	Effect bool `json:"effect,omitempty"`
	// Picture is the file that shows a violation, if any.
	Picture string `json:"picture,omitempty"`
}

func check(name string, ok bool, format string, args ...any) Check {
	return Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)}
}

// effect demands that something was seen in a service's window at least so many times.
type effect struct {
	name  string
	least int
}

// The effects that are no actions and no signs of a service.
const (
	load           = "load"
	outcomeUnknown = "outcome unknown"
	notApplied     = "not applied"
	notInTime      = "not in time"
)

const (
	// resolved counts changes whose answer was lost between service and database, and of which the service found out what
	// had become of them.
	resolved = "outcome resolved"
	// resolvedTotal is the metric of them.
	resolvedTotal = "rowlock_outcome_resolved_total"
	// outcomes names the check of what callers are told OUTCOME_UNKNOWN of.
	outcomes = "outcomes"
)

func did(a fault.Action, least int) effect { return effect{string(a), least} }

// seen returns how often an effect was seen.
func (r *ServiceResult) seen(name string) int {
	answers := map[string]int{
		load: r.OK, outcomeUnknown: r.Unknown, notApplied: r.NotApplied, notInTime: r.NotApplied + r.Unknown,
	}
	return answers[name] + r.Done[fault.Action(name)] + r.Signs[name]
}

// judgeEffects checks that there was load and that the window's fault had its effects.
func (w Window) judgeEffects(r ServiceResult) (checks []Check) {
	const enough = 40
	effects := []effect{{load, enough}}
	if !w.shape.commits || !kinds[r.Service].singles {
		effects = append(effects, w.shape.effects...)
	}
	for _, sign := range kinds[r.Service].signs[w.Name] {
		effects = append(effects, effect{sign, 1})
	}
	for _, e := range effects {
		n := r.seen(e.name)
		checks = append(checks, Check{Name: e.name, OK: n >= e.least, Detail: fmt.Sprintf("%d times", n), Effect: true})
	}
	return checks
}

const (
	// hang is longer than REQUEST_TIMEOUT and the five seconds that the driver may take
	// to give up a silent server.
	hang = 12 * time.Second
	// recoveryLimit is how long a service may take to answer after the faults have ended.
	recoveryLimit = 2 * time.Second
)

// judge checks what every service promises in such a window. flips is how often a
// replica became unready by itself.
func (w Window) judge(r ServiceResult, flips int) []Check {
	outages := 0
	for _, a := range []fault.Action{
		fault.RestartDB, fault.RestartPool, fault.BlackHole, fault.Exhaust, fault.Stop, fault.Failover, fault.Switchover,
		fault.Kill, // one that was killed may be asked before it is gone
	} {
		outages += r.Done[a]
	}
	checks := []Check{
		check("no hang", w.Name == windowStop || r.Slowest < hang, "slowest %s", round(r.Slowest)),
		check("readiness", flips <= outages, "a replica was unready %d times in %d outages", flips, outages),
		check("live", r.Recovery <= recoveryLimit, "answers %s after the faults", round(r.Recovery)),
	}
	quietly := []string{windowNone, windowTerm, windowHostile, windowCitusNone, windowCitusGrow}
	if slices.Contains(quietly, w.Name) {
		checks = append(checks, check("unnoticed", r.Unknown == 0 && r.NotApplied == 0, "unknown %d, not applied %d: %v",
			r.Unknown, r.NotApplied, r.Codes))
	}
	return checks
}
