package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LeftOut is a service's window that was not run.
type LeftOut struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
}

// needsOwner is why a window is left out on a server that is somebody else's.
const needsOwner = "needs to own the server"

// leftOut tells whether the window would do harm to a server that is not ours.
func (w Window) leftOut(c *column) bool { return w.Owner && c.guest }

// leftOut lists whose window is left out, and whether that is everybody who would
// take part.
func (r *rig) leftOut(w Window) (out []LeftOut, all bool) {
	all = true
	for _, c := range r.columns {
		if w.leftOut(c) {
			out = append(out, LeftOut{c.service.Name, needsOwner})
		} else if w.takesPart(c) {
			all = false
		}
	}
	return out, all && len(out) > 0
}

// omit is the result of a window that was run for nobody, at a time since the run's beginning.
func (w Window) omit(out []LeftOut, at time.Duration) *WindowResult {
	return &WindowResult{Window: w, LeftOut: out, From: at, To: at, Columns: []ColumnResult{}}
}

// AsGuest is the window's schedule in one line, for a server that is somebody else's.
func (w Window) AsGuest() string {
	if w.Owner {
		return w.String() + " left out on PostgreSQL: " + needsOwner
	}
	return w.String()
}

// omitted says in a few words what was not run of the window; "" when all was.
func (w *WindowResult) omitted() string {
	names := make([]string, 0, len(w.LeftOut))
	var reasons []string
	for _, one := range w.LeftOut {
		names = append(names, one.Service)
		if !slices.Contains(reasons, one.Reason) {
			reasons = append(reasons, one.Reason)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("left out of %s: %s", strings.Join(names, ", "), strings.Join(reasons, ", "))
}

// Missing says in a line each what the run did not do or could not see.
func (r *Report) Missing() []string {
	var lines []string
	for _, w := range r.Windows {
		if text := w.omitted(); text != "" {
			lines = append(lines, "window "+w.Name+", "+text)
		}
	}
	return append(lines, r.Notes...)
}
