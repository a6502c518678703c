package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
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
	// resolved counts changes whose answer was lost between service and database and whose outcome the service then found
	// out.
	resolved = "outcome resolved"
	// resolvedTotal is the metric of them.
	resolvedTotal = "rowlock_outcome_resolved_total"
	// outcomes names the check of what callers are told OUTCOME_UNKNOWN of.
	outcomes = "outcomes"
	// servedAgain and lossNoticed name checks of failovers.
	servedAgain = "served again"
	lossNoticed = "loss noticed"
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
	// recoveryLimit is the time that a service may take to answer after the faults have ended.
	recoveryLimit = 2 * time.Second
)

// judge checks what every service promises in such a window. flips counts how often a replica became unready
// unexpectedly.
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
		checks = append(checks, check("unnoticed", r.Unknown == 0 && r.NotApplied == 0, "unknown %d, not applied %d: %s",
			r.Unknown, r.NotApplied, listed(r.Codes)))
	}
	return checks
}

// requestTimeout is REQUEST_TIMEOUT of the replicas, but for what a timer may be early by.
const requestTimeout = 3900 * time.Millisecond

// checkOutcomes demands that no caller was told OUTCOME_UNKNOWN in windows in which the database comes back, unless it
// stayed away until the request's deadline.
func (s site) checkOutcomes(ctx context.Context, f *findings) {
	now, _ := s.metric(ctx, resolvedTotal)
	f.signs[resolved] = int(max(0, now-s.resolved))
	if s.window == windowRestart { // which a change may outlive that the service sends again
		f.signs[notApplied] = f.signs[resolved]
	}
	switch s.window {
	case windowReplies, windowCommits, windowBackends, windowPooler, windowRestart, windowCitusCoordinator,
		windowCitusReplies:
	default:
		return
	}

	early, late := 0, 0
	for _, op := range f.ops {
		switch {
		case op.Code != string(rowlock.ErrOutcomeUnknown):
		case op.Return-op.Call < requestTimeout:
			early++
		default:
			late++
		}
	}
	f.addf(outcomes, early == 0, "%d OUTCOME_UNKNOWN, %d more when the database stayed away until the deadline; "+
		"%d lost answers were resolved", early, late, f.signs[resolved])
}

// without returns, for each outage of the primary, the time from its end to the answer of the first change that was
// sent when it was gone; 0 where no change was answered.
func (p *prover) without(ops []history.Op, changes func(history.Op) bool) (all []time.Duration) {
	for _, outage := range p.outages {
		at, lost := outage.At.Sub(p.begun), outage.Lost.Sub(p.begun)
		first := time.Duration(0)
		for _, op := range ops {
			acknowledged := op.Outcome == targets.OK && changes(op) && op.Call >= lost
			if acknowledged && (first == 0 || op.Return-at < first) {
				first = op.Return - at
			}
		}
		all = append(all, round(first))
	}
	return all
}

// How long a service may be without a primary: several times what it takes on two busy cores. A manager has to notice
// the loss first.
const (
	longestOutage = 10 * time.Second
	longestNotice = 15 * time.Second
)

// judgeOutages demands that changes were acknowledged soon after each failover.
func judgeOutages(without []time.Duration, servers Servers) Check {
	limit := longestOutage
	if servers == Managed {
		limit += longestNotice
	}
	ok := !slices.Contains(without, 0) && slices.Max(without) <= limit
	return check(servedAgain, ok, "without service %v", without)
}

// noticed returns the demands that replace the checks of a service that must lose changes: that one of them tells of
// it, and that no answer was INTERNAL.
func noticed(checks []Check, codes map[string]int) []Check {
	// The others may fail for other reasons.
	tellers := []string{linearizable, "sums", sameAnswers, "one charge", "ids", "worked once"}
	var found []string
	for _, one := range checks {
		if !one.OK && slices.Contains(tellers, one.Name) {
			found = append(found, one.Name+": "+one.Detail)
		}
	}
	internal := codes[string(rowlock.ErrInternal)]
	return []Check{
		check(lossNoticed, len(found) > 0, "%d checks tell of it: %s", len(found), strings.Join(found, "; ")),
		check("answers", internal == 0, "%d INTERNAL", internal),
	}
}
