package prove

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the verdict of a run.
type Report struct {
	Seed     uint64          `json:"seed"`
	Replicas int             `json:"replicas"`
	Started  time.Time       `json:"started"`
	Took     time.Duration   `json:"took_ns"`
	Windows  []*WindowResult `json:"windows"`
	// After is what was looked at when everything was over.
	After []Check `json:"after"`
	// Broken says why the run ended early; "" when it came to its end.
	Broken string `json:"broken,omitempty"`
	// Server says which server it was on; "" for one of the run's own.
	Server string `json:"server,omitempty"`
	// Notes say what could not be looked at there.
	Notes []string `json:"notes,omitempty"`
	// Uncounted says why the server may not count a deadlock, as one of the notes does; "" when it does.
	Uncounted string `json:"-"`
	// LeftBehind names the databases and roles of the run that are still there, or may be.
	LeftBehind []string `json:"left_behind,omitempty"`
}

// WindowResult is what came of one window.
type WindowResult struct {
	Window

	From      time.Duration  `json:"from_ns"` // since the run's beginning
	To        time.Duration  `json:"to_ns"`
	Columns   []ColumnResult `json:"columns"`
	Deadlocks int64          `json:"deadlocks"`
	// LeftOut are the services that the window was not run for, though it is theirs.
	LeftOut []LeftOut `json:"left_out,omitempty"`
	// Repeated says that the first try had no effect and this is the second.
	Repeated bool `json:"repeated,omitempty"`
}

// ColumnResult is what came of one window for one service.
type ColumnResult struct {
	Service    string         `json:"service"`
	Ops        int            `json:"ops"`
	OK         int            `json:"ok"`
	Refused    int            `json:"refused"`
	NotApplied int            `json:"not_applied"`
	Unknown    int            `json:"unknown"`
	Codes      map[string]int `json:"codes"`
	P50        time.Duration  `json:"p50_ns"`
	P99        time.Duration  `json:"p99_ns"`
	Slowest    time.Duration  `json:"slowest_ns"`
	Recovery   time.Duration  `json:"recovery_ns"`
	Done       map[Action]int `json:"done"`
	// Signs counts what was to be provoked.
	Signs  map[string]int `json:"signs,omitempty"`
	Checks []Check        `json:"checks"`
	// Sometimes are demands on the fault, not on the service: that it had an effect.
	Sometimes []Check `json:"sometimes"`
	// Seconds are the operations by the second in which they returned.
	Seconds []Second `json:"seconds"`
}

// Second is one second of a service's life.
type Second struct {
	At    int           `json:"at"` // seconds since the run's beginning
	OK    int           `json:"ok"`
	Other int           `json:"other"`
	P99   time.Duration `json:"p99_ns"`
}

func (c *ColumnResult) count(ops []Op) {
	c.Codes = map[string]int{}
	took := make([]time.Duration, 0, len(ops))
	for _, op := range ops {
		c.Ops++
		switch op.Outcome {
		case OK:
			c.OK++
		case Refused:
			c.Refused++
		case NotApplied:
			c.NotApplied++
		case Unknown:
			c.Unknown++
		}
		if op.Code != "" {
			c.Codes[op.Code]++
		}
		took = append(took, op.Return-op.Call)
	}
	slices.Sort(took)
	c.P50, c.P99, c.Slowest = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (c *ColumnResult) timeline(ops []Op) {
	took := map[int][]time.Duration{}
	by := map[int]*Second{}
	for _, op := range ops {
		at := int(op.Return / time.Second)
		if by[at] == nil {
			by[at] = &Second{At: at}
		}
		if op.Outcome == OK || op.Outcome == Refused {
			by[at].OK++
		} else {
			by[at].Other++
		}
		took[at] = append(took[at], op.Return-op.Call)
	}
	for at, second := range by {
		slices.Sort(took[at])
		second.P99 = quantile(took[at], 0.99)
		c.Seconds = append(c.Seconds, *second)
	}
	slices.SortFunc(c.Seconds, func(a, b Second) int { return a.At - b.At })
}

// hang is the time after which an answer counts as none: REQUEST_TIMEOUT, the five
// seconds that the driver may take to give up a silent server, and some.
const hang = 12 * time.Second

// demands are the checks that a window adds to those of the services.
func (w Window) demands(c ColumnResult) []Check {
	checks := []Check{check("no hang", w.Name == windowStop || c.Slowest < hang, "slowest %s", round(c.Slowest))}
	if w.Name == windowNone || w.Name == windowTerm {
		checks = append(checks, check("nobody noticed", c.Unknown == 0 && c.NotApplied == 0,
			"unknown %d, not applied %d: %v", c.Unknown, c.NotApplied, c.Codes))
	}
	return checks
}

// readiness demands that no replica stops being ready more often than its database, or
// it itself, was out of order. One that was killed may be asked before it is gone.
func (w Window) readiness(c ColumnResult, flips int) Check {
	outages := 0
	for _, a := range []Action{RestartDB, RestartPool, BlackHoleOn, ExhaustOn, StopOn, Kill} {
		outages += c.Done[a]
	}
	return check("readiness", flips <= outages, "a replica was unready %d times in %d outages", flips, outages)
}

// sometimes are the signs that the window's fault had an effect.
func (w Window) sometimes(c ColumnResult) []Check {
	const enough = 40
	checks := []Check{check("load", c.OK >= enough, "%d operations succeeded", c.OK)}
	done := func(a Action, n int) Check {
		return check(string(a), c.Done[a] >= n, "%d times", c.Done[a])
	}
	seen := func(what string, n int) Check { return check(what, n > 0, "%d", n) }
	sign := func(service, what string) {
		if c.Service == service {
			checks = append(checks, seen(what, c.Signs[what]))
		}
	}
	switch w.Name {
	case windowNone:
		sign(servicePayments, keyReused)
		sign(serviceIidy, signClaimed)
		sign(serviceIidy, signLate)
	case windowKill:
		checks = append(checks, done(Kill, 1), seen("outcome unknown", c.Unknown))
	case windowTerm:
		checks = append(checks, done(Terminate, 2))
	case windowBackends:
		checks = append(checks, done(Backend, 5))
	case windowReplies:
		checks = append(checks, done(CutReply, 5))
	case windowCommits:
		if c.Service != serviceCounts { // whose changes are single statements
			checks = append(checks, done(CutReply, 3))
		}
	case windowRestart:
		checks = append(checks, done(RestartDB, 2), seen("not applied", c.NotApplied))
	case windowPooler:
		checks = append(checks, done(RestartPool, 2))
	case windowSlow:
		checks = append(checks, done(BlackHoleOn, 1), seen("not in time", c.NotApplied+c.Unknown))
	case windowStop:
		checks = append(checks, done(StopOn, 1))
		sign(servicePyggpot, signTaken)
	case windowHeld:
		checks = append(checks, done(HoldOn, 1), seen("not applied", c.NotApplied))
		sign(serviceIidy, signHeldLate)
	case windowExhausted:
		checks = append(checks, done(ExhaustOn, 1), seen("not applied", c.NotApplied))
	}
	return checks
}

// missed names the first sign that is missing; "" when the fault had its effect.
func (w *WindowResult) missed() string {
	for _, c := range w.Columns {
		for _, s := range c.Sometimes {
			if !s.OK {
				return c.Service + ": " + s.Name + ": " + s.Detail
			}
		}
	}
	return ""
}

// Failure is one thing that does not hold.
type Failure struct {
	Window, Service, Check, Detail string // "" where it is no window's, or no service's
}

// theRun is where failures are that break no promise: the run did not come to its end.
const theRun = "the run"

// OfRun tells whether the run failed by itself, which says nothing about the services.
func (f Failure) OfRun() bool { return f.Window == theRun }

// String is the failure in a line.
func (f Failure) String() string {
	where := f.Window
	if f.Service != "" {
		where += ", " + f.Service
	}
	return fmt.Sprintf("%s: %s: %s", where, f.Check, f.Detail)
}

// deadlocks is the name of a check of the window without faults.
const deadlocks = "deadlocks"

// Failures lists what does not hold; none means that everything was proven.
func (r *Report) Failures() []Failure {
	var all []Failure
	for _, w := range r.Windows {
		for _, c := range w.Columns {
			for _, one := range slices.Concat(c.Checks, c.Sometimes) {
				if !one.OK {
					all = append(all, Failure{w.Name, c.Service, one.Name, one.Detail})
				}
			}
		}
		if w.Name == windowNone && w.Deadlocks != 0 {
			all = append(all, Failure{w.Name, "", deadlocks, fmt.Sprintf("%d in a window without faults", w.Deadlocks)})
		}
	}
	for _, one := range r.After {
		if !one.OK {
			all = append(all, Failure{"after the run", "", one.Name, one.Detail})
		}
	}
	if r.Broken != "" {
		all = append(all, Failure{theRun, "", "ended early", r.Broken})
	}
	if !slices.ContainsFunc(r.Windows, func(w *WindowResult) bool { return len(w.Columns) > 0 }) {
		all = append(all, Failure{theRun, "", "windows", "none was run"})
	}
	return all
}

// line is the window in one line.
func (w *WindowResult) line() string {
	var b strings.Builder
	if len(w.Columns) == 0 {
		return fmt.Sprintf("%-10s %s", w.Name, w.omitted())
	}
	_, _ = fmt.Fprintf(&b, "%-10s %4.0fs ", w.Name, (w.To - w.From).Seconds())
	for _, c := range w.Columns {
		verdict := "holds"
		for _, one := range slices.Concat(c.Checks, c.Sometimes) {
			if !one.OK {
				verdict = "FAILS"
			}
		}
		_, _ = fmt.Fprintf(&b, " | %s %s: %d ok, %d refused, %d not applied, %d unknown",
			c.Service, verdict, c.OK, c.Refused, c.NotApplied, c.Unknown)
	}
	if text := w.omitted(); text != "" {
		_, _ = fmt.Fprintf(&b, " | %s", text)
	}
	return b.String()
}

// WriteTable prints the verdict as a table, a row per window and service.
func (r *Report) WriteTable(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "window\tservice\tverdict\tok\trefused\tnot applied\tunknown\tp50\tp99\tslowest\tback after\tfaults")
	for _, w := range r.Windows {
		for _, c := range w.Columns {
			verdict := "holds"
			for _, one := range slices.Concat(c.Checks, c.Sometimes) {
				if !one.OK {
					verdict = "FAILS: " + one.Name
					break
				}
			}
			_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", w.Name, c.Service, verdict, c.OK, c.Refused, c.NotApplied,
				c.Unknown, round(c.P50), round(c.P99), round(c.Slowest), round(c.Recovery), done(c.Done))
		}
		for _, one := range w.LeftOut {
			_, _ = fmt.Fprintf(tw, "%s\t%s\tleft out\t\t\t\t\t\t\t\t\t%s\n", w.Name, one.Service, one.Reason)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

func done(actions map[Action]int) string {
	var parts []string
	for a, n := range actions {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, a))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
