package prove

import (
	"fmt"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
)

// effect demands that a fault was seen in a service's result at least so many times.
type effect struct {
	name  string
	least int
	count func(r ServiceResult) int
	// applies says which services have to show it.
	applies func(service string) bool
}

func every(string) bool { return true }

func did(a fault.Action, least int) effect {
	return effect{string(a), least, func(r ServiceResult) int { return r.Done[a] }, every}
}

func unknown() effect {
	return effect{"outcome unknown", 1, func(r ServiceResult) int { return r.Unknown }, every}
}

func notApplied() effect {
	return effect{"not applied", 1, func(r ServiceResult) int { return r.NotApplied }, every}
}

func notInTime() effect {
	return effect{"not in time", 1, func(r ServiceResult) int { return r.NotApplied + r.Unknown }, every}
}

// sign demands what a service's workload or its metrics count.
func sign(service, name string) effect {
	return effect{name, 1, func(r ServiceResult) int { return r.Signs[name] }, func(s string) bool { return s == service }}
}

func except(service string, e effect) effect {
	e.applies = func(s string) bool { return s != service }
	return e
}

// judgeEffects checks that there was load and that the window's fault had its effects.
func (w Window) judgeEffects(r ServiceResult) []Check {
	const enough = 40
	checks := []Check{check("load", r.OK >= enough, "%d operations succeeded", r.OK)}
	for _, e := range w.shape.effects {
		if e.applies(r.Service) {
			checks = append(checks, check(e.name, e.count(r) >= e.least, "%d times", e.count(r)))
		}
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
	outages := 0 // one that was killed may be asked before it is gone
	for _, a := range []fault.Action{
		fault.RestartDB, fault.RestartPool, fault.BlackHoleOn, fault.ExhaustOn, fault.StopOn, fault.Kill,
	} {
		outages += r.Done[a]
	}
	checks := []Check{
		check("no hang", w.Name == windowStop || r.Slowest < hang, "slowest %s", round(r.Slowest)),
		check("readiness", flips <= outages, "a replica was unready %d times in %d outages", flips, outages),
		check("live", r.Recovery <= recoveryLimit, "answers %s after the faults", round(r.Recovery)),
	}
	if w.Name == windowNone || w.Name == windowTerm {
		checks = append(checks, check("unnoticed", r.Unknown == 0 && r.NotApplied == 0,
			"unknown %d, not applied %d: %v", r.Unknown, r.NotApplied, r.Codes))
	}
	return checks
}

// Check holds the outcome of one check.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// Picture is the file that shows a violation, if any.
	Picture string `json:"picture,omitempty"`
}

func check(name string, ok bool, format string, args ...any) Check {
	return Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)}
}
