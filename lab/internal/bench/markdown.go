package bench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// pageColumns is the width of prose on a page.
const pageColumns = 100

// markdown returns the report as the section of a page: what was measured, a table of the scenarios with their bars,
// the plot of the sweep in the file of that path, and its figures.
func (r *Report) markdown(plot string) []byte {
	var text bytes.Buffer
	o := r.Options
	busy := 0.0
	for _, s := range r.Scenarios {
		busy = max(busy, s.Median[othersCPU])
	}
	runs := fmt.Sprintf("Medians of %d runs", o.Runs)
	if o.Runs == 1 {
		runs = "Single runs"
	}
	about := fmt.Sprintf("%s of %v each, %s; %s; revision %s. Other programs used up to %.0f%% of the machine.",
		runs, o.Duration, r.Started.Format("2 January 2006"), r.Machine, r.Version, busy)
	for width := 0; about != ""; {
		var word string
		word, about, _ = strings.Cut(about, " ")
		if width += len(word) + 1; width > pageColumns {
			text.WriteString("\n")
			width = len(word) + 1
		} else if width > len(word)+1 {
			text.WriteString(" ")
		}
		text.WriteString(word)
	}
	text.WriteString("\n\n| | per second | anchor | x anchor | p50 | p99 | errors | goal |\n|" +
		strings.Repeat(" --- |", 8) + "\n")
	for _, s := range r.Scenarios {
		compared := func(other Scenario) bool { return other.Callers == 0 && other.Baseline == s.Name }
		if s.Callers > 0 || len(s.Runs) == 0 || s.Anchor && slices.ContainsFunc(r.Scenarios, compared) {
			continue
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", s.Title, s.cell(perSecond, ""), r.anchor(s),
			s.cell(ratio, ""), s.cell(p50, " ms"), s.cell(p99, " ms"), s.cell(errorCount, ""), r.goals(s))
	}
	if levels, names := r.sweptPoints(); len(levels) > 0 {
		fmt.Fprintf(&text, "\n![%s and pgbench: throughput and latency by the number of callers](%s)\n\n| callers |",
			o.Service, plot)
		for i, name := range names {
			fmt.Fprintf(&text, " %s |%s p50 | p99 |", name, strings.Repeat(" x pgbench |", min(i, 1)))
		}
		fmt.Fprintf(&text, "\n|%s\n", strings.Repeat(" --- |", 4*len(names)))
		for _, callers := range levels {
			fmt.Fprintf(&text, "| %d |", callers)
			for i, name := range names {
				s := r.sweptPoint(name, callers)
				fmt.Fprintf(&text, " %s |", s.cell(perSecond, "/s"))
				if i > 0 {
					fmt.Fprintf(&text, " %s |", s.cell(ratio, ""))
				}
				fmt.Fprintf(&text, " %s | %s |", s.cell(p50, " ms"), s.cell(p99, " ms"))
			}
			text.WriteString("\n")
		}
	}
	return text.Bytes()
}

// anchor returns what a scenario is compared with, nothing where that did not run.
func (r *Report) anchor(s Scenario) string {
	for _, other := range r.Scenarios {
		if other.Name == s.Baseline {
			return other.cell(perSecond, " ("+other.Name+")")
		}
	}
	return ""
}

// cell returns a figure and its unit, nothing where it was not measured.
func (s *Scenario) cell(figure, unit string) string {
	v, ok := s.Median[figure]
	if !ok {
		return ""
	}
	return significant(v) + unit
}

// goals returns the bars of a scenario with their outcome. Only a missed one stands out.
func (r *Report) goals(s Scenario) string {
	var all []string
	for _, b := range r.Bars {
		if b.Scenario != s.Title {
			continue
		}
		what, milliseconds := strings.CutSuffix(b.Figure, "_ms")
		goal := strings.TrimSuffix(b.Want, " "+s.Baseline)
		if what != perSecond {
			goal = what + " " + goal
		}
		if milliseconds && !strings.HasSuffix(goal, " x") {
			goal += " ms"
		}
		if b.Outcome != "met" {
			goal += " (**" + b.Outcome + "**)"
		}
		all = append(all, goal)
	}
	return strings.Join(all, ", ")
}

// sweptPoints returns the numbers of callers that were measured, and the series, in their order.
func (r *Report) sweptPoints() (levels []int, names []string) {
	for _, s := range r.Scenarios {
		if s.Callers == 0 || len(s.Runs) == 0 {
			continue
		}
		if !slices.Contains(levels, s.Callers) {
			levels = append(levels, s.Callers)
		}
		if !slices.Contains(names, s.Series) {
			names = append(names, s.Series)
		}
	}
	return levels, names
}

// sweptPoint returns a scenario of the sweep, an empty one where it did not run.
func (r *Report) sweptPoint(series string, callers int) *Scenario {
	for i, s := range r.Scenarios {
		if s.Series == series && s.Callers == callers {
			return &r.Scenarios[i]
		}
	}
	return &Scenario{}
}

// significant prints a figure with three significant digits, in groups of thousands: 25,300, 9.1 and 0.045.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	unit := math.Pow10(int(math.Floor(math.Log10(v))) - 2)
	digits := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', max(0, -int(math.Round(math.Log10(unit)))), 64)
	whole, fraction, broken := strings.Cut(digits, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction = strings.TrimRight(fraction, "0"); broken && fraction != "" {
		whole += "." + fraction
	}
	return whole
}
