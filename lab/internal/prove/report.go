package prove

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/style"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Report holds the result of a run.
type Report struct {
	Seed     uint64          `json:"seed"`
	Replicas int             `json:"replicas"`
	Services []string        `json:"services"`
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

	Services []ServiceResult `json:"services"`
	// Checks concern the window as a whole.
	Checks []Check `json:"checks,omitempty"`
}

// ServiceResult holds the result of one window for one service.
type ServiceResult struct {
	Service    string         `json:"service"`
	OK         int            `json:"ok"`
	Refused    int            `json:"refused"`
	NotApplied int            `json:"not_applied"`
	Unknown    int            `json:"unknown"`
	Codes      map[string]int `json:"codes"`
	P50        time.Duration  `json:"p50_ns"`
	P99        time.Duration  `json:"p99_ns"`
	Slowest    time.Duration  `json:"slowest_ns"`

	// Answered counts the answers OK in equal parts of the window.
	Answered [windowParts]int `json:"answered"`
	// Lost holds the first unknown answers, and Slow the slowest operations.
	Lost []Moment `json:"lost,omitempty"`
	Slow []Moment `json:"slow"`

	Recovery time.Duration        `json:"recovery_ns"`
	Done     map[fault.Action]int `json:"done"`
	// Signs counts what the window was to provoke.
	Signs map[string]int `json:"signs,omitempty"`
	// Checks are the demands on the service and on the fault.
	Checks []Check `json:"checks"`
}

// Moment tells of one operation.
type Moment struct {
	At   time.Duration `json:"at_ns"` // since the window's start
	Took time.Duration `json:"took_ns"`
	Code string        `json:"code,omitempty"`
	What string        `json:"what"`
}

const (
	// windowParts is in how many parts the report divides a window.
	windowParts = 100
	// mostLost and mostSlow are how many operations the report tells of.
	mostLost, mostSlow = 100, 5
)

// Failed reports whether a check fails.
func (r *ServiceResult) Failed() bool { return failures("", r.Service, r.Checks...) != nil }

// summarize counts the operations of a window, which began at that time of the history, and measures their times.
func (r *ServiceResult) summarize(ops []history.Op, began time.Duration, w Window) {
	counts := map[targets.Outcome]*int{
		targets.OK: &r.OK, targets.Refused: &r.Refused, targets.NotApplied: &r.NotApplied, targets.Unknown: &r.Unknown,
	}
	moment := func(op history.Op) Moment {
		return Moment{op.Call - began, op.Return - op.Call, op.Code, fmt.Sprintf("%s %+v", op.Key, op.Input)}
	}
	r.Codes = map[string]int{}
	for _, op := range ops {
		*counts[op.Outcome]++
		if op.Code != "" {
			r.Codes[op.Code]++
		}
		part := int((op.Return - began) * windowParts / w.For)
		switch {
		case op.Outcome == targets.OK && part >= 0 && part < windowParts: // not while it settles
			r.Answered[part]++
		case op.Outcome == targets.Unknown && len(r.Lost) < mostLost:
			r.Lost = append(r.Lost, moment(op))
		}
	}

	slowest := slices.SortedFunc(slices.Values(ops), func(a, b history.Op) int {
		return cmp.Compare(b.Return-b.Call, a.Return-a.Call)
	})
	for _, op := range slowest[:min(mostSlow, len(slowest))] {
		r.Slow = append(r.Slow, moment(op))
	}
	r.P50, r.P99, r.Slowest = times(ops)
}

// times returns how long the operations took; 0 when there are none.
func times(ops []history.Op) (p50, p99, slowest time.Duration) {
	took := make([]time.Duration, len(ops))
	for i, op := range ops {
		took[i] = op.Return - op.Call
	}
	last := len(took) - 1
	if last < 0 {
		return 0, 0, 0
	}
	slices.Sort(took)
	return took[last/2], took[last*99/100], took[last]
}

// Failure names a check that does not hold.
type Failure struct {
	Check

	Window, Service string // the service is "" where the check is the window's
}

// theRun is in place of the window where the run itself failed.
const theRun = "the run"

// OfRun reports whether the run itself failed, which says nothing about the services.
func (f Failure) OfRun() bool { return f.Window == theRun }

// String returns the failure in a line.
func (f Failure) String() string {
	where := f.Window
	if f.Service != "" {
		where += ", " + f.Service
	}
	return fmt.Sprintf("%s: %s: %s", where, f.Name, f.Detail)
}

// deadlocks names a check of the window without faults.
const deadlocks = "deadlocks"

// failures lists the checks that fail.
func failures(window, service string, checks ...Check) (all []Failure) {
	for _, one := range checks {
		if !one.OK {
			all = append(all, Failure{one, window, service})
		}
	}
	return all
}

// Add appends the results of another part of the run, whose windows had their own servers.
func (r *Report) Add(part *Report) {
	for _, name := range part.Services {
		if !slices.Contains(r.Services, name) {
			r.Services = append(r.Services, name)
		}
	}
	r.Windows, r.After = append(r.Windows, part.Windows...), append(r.After, part.After...)
	r.Notes, r.Took = append(r.Notes, part.Notes...), r.Took+part.Took
	r.Broken = cmp.Or(r.Broken, part.Broken)
}

// Failures lists what does not hold in the window.
func (w *WindowResult) Failures() (all []Failure) {
	for _, s := range w.Services {
		all = append(all, failures(w.Name, s.Service, s.Checks...)...)
	}
	return append(all, failures(w.Name, "", w.Checks...)...)
}

// missed names the last effect that was not seen; "" when the fault had all of them, or when a promise was broken: then
// the window must not be repeated, because the repeat would take the place of what was found.
func (w *WindowResult) missed() (effect string) {
	for _, f := range w.Failures() {
		if !f.Effect {
			return ""
		}
		effect = f.String()
	}
	return effect
}

// Failures lists what does not hold; when there is none, everything was proven.
func (r *Report) Failures() (all []Failure) {
	for _, w := range r.Windows {
		all = append(all, w.Failures()...)
	}
	all = append(all, failures("after the run", "", r.After...)...)
	return append(all, failures(theRun, "",
		check("ended early", r.Broken == "", "%s", r.Broken), check("windows", len(r.Windows) > 0, "none was run"))...)
}

// lines returns a line for each service of the window.
func (w *WindowResult) lines() string {
	lines := make([]string, len(w.Services))
	for i, s := range w.Services {
		result := "holds"
		if failed := failures(w.Name, s.Service, s.Checks...); failed != nil {
			result = "FAILS: " + failed[0].Name
		}
		lines[i] = fmt.Sprintf(
			"%-10s %-15s %-8s %6d ok, %4d refused, %4d not applied, %3d unknown; p99 %s, slowest %s; %s",
			w.Name, s.Service, result, s.OK, s.Refused, s.NotApplied, s.Unknown,
			round(s.P99), round(s.Slowest), s.Actions())
		for _, c := range s.Checks {
			if slices.Contains([]string{isolated, servedAgain, lossNoticed}, c.Name) {
				lines[i] += fmt.Sprintf("; %s: %s", c.Name, c.Detail)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Actions lists what was done, as in "2 kill -9, 1 SIGTERM".
func (r *ServiceResult) Actions() string {
	var parts []string
	for _, a := range slices.Sorted(maps.Keys(r.Done)) {
		if n := r.Done[a]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, a))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no fault")
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

//go:embed page.html
var pageText string

// WritePage writes the report as one HTML page that needs nothing else.
func (r *Report) WritePage(out io.Writer) error {
	tmpl := template.Must(template.New("page").Funcs(template.FuncMap{
		"seconds": func(d time.Duration) string { return round(d).String() },
		"picture": func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		},
	}).Parse(style.Into(pageText)))
	return tmpl.Execute(out, r)
}

// Of returns what the window found of a service; nil where it took no part.
func (w *WindowResult) Of(name string) *ServiceResult {
	i := slices.IndexFunc(w.Services, func(s ServiceResult) bool { return s.Service == name })
	if i < 0 {
		return nil
	}
	return &w.Services[i]
}

// Timeline is drawn of a service in a window.
type Timeline struct {
	Window Window
	Result ServiceResult
}

// Timeline returns the timeline of a service in the window.
func (w *WindowResult) Timeline(r ServiceResult) Timeline { return Timeline{w.Window, r} }

// X returns where a time since the window's start is, in thousandths of the width.
func (t Timeline) X(at time.Duration) int { return int(at * 1000 / t.Window.For) }

// Heights returns where the line of the answers is in each part of the window, in hundredths of the height from the
// top.
func (t Timeline) Heights() (all []int) {
	most := max(1, slices.Max(t.Result.Answered[:]))
	for _, n := range t.Result.Answered {
		all = append(all, 100-96*n/most)
	}
	return all
}
