package prove

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
)

// Report holds the result of a run.
type Report struct {
	Seed     uint64          `json:"seed"`
	Replicas int             `json:"replicas"`
	Started  time.Time       `json:"started"`
	Took     time.Duration   `json:"took_ns"`
	Windows  []*WindowResult `json:"windows"`
	// After holds the checks of the idle system when everything was over.
	After []Check `json:"after"`
	// Broken says why the run ended early; "" when it came to its end.
	Broken string `json:"broken,omitempty"`
	// Server names the server of --dsn; "" for one of the run's own.
	Server string `json:"server,omitempty"`
	// Notes say what was not done or could not be checked there.
	Notes []string `json:"notes,omitempty"`
}

// WindowResult holds the result of one window.
type WindowResult struct {
	Window

	From      time.Duration   `json:"from_ns"` // since the run's start
	To        time.Duration   `json:"to_ns"`
	Services  []ServiceResult `json:"services"`
	Deadlocks int64           `json:"deadlocks"`
	// Repeated says that the first try had no effect and this is the second.
	Repeated bool `json:"repeated,omitempty"`
}

// ServiceResult holds the result of one window for one service.
type ServiceResult struct {
	Service    string               `json:"service"`
	Ops        int                  `json:"ops"`
	OK         int                  `json:"ok"`
	Refused    int                  `json:"refused"`
	NotApplied int                  `json:"not_applied"`
	Unknown    int                  `json:"unknown"`
	Codes      map[string]int       `json:"codes"`
	P50        time.Duration        `json:"p50_ns"`
	P99        time.Duration        `json:"p99_ns"`
	Slowest    time.Duration        `json:"slowest_ns"`
	Recovery   time.Duration        `json:"recovery_ns"`
	Done       map[fault.Action]int `json:"done"`
	// Signs counts what the window was to provoke.
	Signs map[string]int `json:"signs,omitempty"`
	// Checks are demands on the service, Effects on the fault.
	Checks  []Check `json:"checks"`
	Effects []Check `json:"effects"`
	// Seconds are the operations by the second in which they returned.
	Seconds []Second `json:"seconds"`
}

// Second is one second of a service's operations.
type Second struct {
	At    int           `json:"at"` // seconds since the run's start
	OK    int           `json:"ok"`
	Other int           `json:"other"`
	P99   time.Duration `json:"p99_ns"`
}

// AllChecks returns the demands on the service and on the fault.
func (r *ServiceResult) AllChecks() []Check { return slices.Concat(r.Checks, r.Effects) }

// Failed returns the first check that fails; nil when all hold.
func (r *ServiceResult) Failed() *Check {
	for _, one := range r.AllChecks() {
		if !one.OK {
			return &one
		}
	}
	return nil
}

// summarize counts the operations and measures their times.
func (r *ServiceResult) summarize(ops []history.Op) {
	r.Codes = map[string]int{}
	took := make([]time.Duration, 0, len(ops))
	bySecond := map[int][]time.Duration{}
	seconds := map[int]*Second{}
	for _, op := range ops {
		at := int(op.Return / time.Second)
		if seconds[at] == nil {
			seconds[at] = &Second{At: at}
		}
		answered := &seconds[at].OK
		r.Ops++
		switch op.Outcome {
		case history.OK:
			r.OK++
		case history.Refused:
			r.Refused++
		case history.NotApplied:
			r.NotApplied++
			answered = &seconds[at].Other
		case history.Unknown:
			r.Unknown++
			answered = &seconds[at].Other
		}
		*answered++
		if op.Code != "" {
			r.Codes[op.Code]++
		}
		took = append(took, op.Return-op.Call)
		bySecond[at] = append(bySecond[at], op.Return-op.Call)
	}
	r.P50, r.P99, r.Slowest = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)
	for at, second := range seconds {
		second.P99 = quantile(bySecond[at], 0.99)
		r.Seconds = append(r.Seconds, *second)
	}
	slices.SortFunc(r.Seconds, func(a, b Second) int { return a.At - b.At })
}

// quantile sorts the times and returns the q-quantile, 0 of none.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// missed names the first effect that was not seen; "" when the fault had all of them.
func (w *WindowResult) missed() string {
	for _, r := range w.Services {
		for _, one := range r.Effects {
			if !one.OK {
				return r.Service + ": " + one.Name + ": " + one.Detail
			}
		}
	}
	return ""
}

// Failure names a check that does not hold.
type Failure struct {
	Window, Service, Check, Detail string // the service is "" where the check is the window's
}

// theRun is in place of the window where the run itself failed.
const theRun = "the run"

// OfRun reports whether the run failed by itself, which says nothing about the services.
func (f Failure) OfRun() bool { return f.Window == theRun }

// String returns the failure in a line.
func (f Failure) String() string {
	where := f.Window
	if f.Service != "" {
		where += ", " + f.Service
	}
	return fmt.Sprintf("%s: %s: %s", where, f.Check, f.Detail)
}

// deadlocks names a check of the window without faults.
const deadlocks = "deadlocks"

// Failures lists what does not hold; when there is none, everything was proven.
func (r *Report) Failures() []Failure {
	var all []Failure
	for _, w := range r.Windows {
		for _, s := range w.Services {
			for _, one := range s.AllChecks() {
				if !one.OK {
					all = append(all, Failure{w.Name, s.Service, one.Name, one.Detail})
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
	if len(r.Windows) == 0 {
		all = append(all, Failure{theRun, "", "windows", "none was run"})
	}
	return all
}

// lines returns a line for each service of the window.
func (w *WindowResult) lines() string {
	lines := make([]string, len(w.Services))
	for i := range w.Services {
		s, result := &w.Services[i], "holds"
		if failed := s.Failed(); failed != nil {
			result = "FAILS: " + failed.Name
		}
		lines[i] = fmt.Sprintf(
			"%-10s %-15s %-8s %6d ok, %4d refused, %4d not applied, %3d unknown; p99 %s, slowest %s; %s",
			w.Name, s.Service, result, s.OK, s.Refused, s.NotApplied, s.Unknown,
			round(s.P99), round(s.Slowest), cmp.Or(actions(s.Done), "no fault"))
	}
	return strings.Join(lines, "\n")
}

// actions lists what was done, as in "2 kill -9, 1 SIGTERM".
func actions(done map[fault.Action]int) string {
	var parts []string
	for a, n := range done {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, a))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
