package bench

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed page.md.tmpl plot.svg.tmpl
var templates embed.FS

// The lines of a page between which the section of a service stands.
const (
	sectionBegin = "<!-- bench %s -->\n"
	sectionEnd   = "<!-- end of bench -->\n"
)

// Publish puts the report in place of the section of its service in a Markdown page, and the plot of its sweep into the
// folder beside the page with its name, as SERVICE.svg.
func (r *Report) Publish(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("publish the report: %w", err)
	}
	begin := fmt.Sprintf(sectionBegin, r.Options.Service)
	before, rest, _ := strings.Cut(string(text), begin) // no rest where it is missing
	_, after, ended := strings.Cut(rest, sectionEnd)
	if !ended {
		return fmt.Errorf("publish the report: %s lacks the line %q, or %q after it", page, begin, sectionEnd)
	}

	folder, plot := strings.TrimSuffix(page, filepath.Ext(page)), r.Options.Service+".svg"
	section := r.Markdown(path.Join(filepath.Base(folder), plot))
	err = os.WriteFile(page, []byte(before+begin+section+sectionEnd+after), 0o644)
	if levels, _ := r.swept(); len(levels) > 0 {
		err = errors.Join(err, os.MkdirAll(folder, 0o755),
			os.WriteFile(filepath.Join(folder, plot), []byte(r.plot()), 0o644))
	}
	return err
}

// render fills in a template, which is right for every report.
func render(name string, functions template.FuncMap, data any) string {
	var text strings.Builder
	page := template.Must(template.New(name).Funcs(functions).ParseFS(templates, name))
	if err := page.Execute(&text, data); err != nil {
		panic(err)
	}
	return text.String()
}

// pageColumns is the width of prose on a page.
const pageColumns = 100

// Markdown returns the report as the section of a page: what was measured, a table of the scenarios with their goals,
// the plot of the sweep in the file of that path, and its figures.
func (r *Report) Markdown(plot string) string {
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
	wrap := regexp.MustCompile(fmt.Sprintf(`(.{1,%d})( |$)`, pageColumns))

	// An anchor stands in the line of what is compared with it.
	rows := slices.DeleteFunc(slices.Clone(r.Scenarios), func(s Scenario) bool {
		compared := func(other Scenario) bool { return other.Callers == 0 && other.Baseline == s.Name }
		return s.Callers > 0 || len(s.Runs) == 0 || s.Anchor && slices.ContainsFunc(r.Scenarios, compared)
	})
	levels, names := r.swept()
	functions := template.FuncMap{"cell": cell, "anchor": r.anchor, "join": strings.Join}
	return render("page.md.tmpl", functions, struct {
		*Report

		About, Plot string
		Rows        []Scenario
		Levels      []int
		Names       []string
	}{r, strings.TrimSpace(wrap.ReplaceAllString(about, "$1\n")), plot, rows, levels, names})
}

// anchor returns what a scenario is compared with, nothing where that did not run.
func (r *Report) anchor(s Scenario) string {
	for _, other := range r.Scenarios {
		if other.Name == s.Baseline {
			return cell(other, perSecond, " ("+other.Name+")")
		}
	}
	return ""
}

// cell returns a figure and its unit, nothing where it was not measured.
func cell(s Scenario, figure, unit string) string {
	v, ok := s.Median[figure]
	if !ok {
		return ""
	}
	return significant(v) + unit
}

// swept returns the numbers of callers that were measured, and the series, in their order.
func (r *Report) swept() (levels []int, names []string) {
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

// At returns a scenario of the sweep, an empty one where it did not run.
func (r *Report) At(series string, callers int) Scenario {
	for _, s := range r.Scenarios {
		if s.Series == series && s.Callers == callers {
			return s
		}
	}
	return Scenario{}
}

// significant prints a figure with three significant digits, in groups of thousands: 25,300, 9.1 and 0.045.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	unit := math.Pow10(int(math.Floor(math.Log10(v))) - 2)
	digits := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', max(0, -int(math.Round(math.Log10(unit)))), 64)
	whole, fraction, _ := strings.Cut(digits, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return strings.TrimRight(strings.TrimRight(whole+"."+fraction, "0"), ".")
}

// panel is a diagram over the numbers of callers, which stand at equal distances. Its values are logarithmic.
type panel struct {
	Left, Levels int
	Title        string
	// Ticks are the values that have a line across: powers of ten, from the bottom to the top.
	Ticks []float64
}

// newPanel returns a panel from least, a power of ten, to most or more.
func newPanel(left, levels int, title string, least, most float64) panel {
	p := panel{Left: left, Levels: levels, Title: title, Ticks: []float64{least}}
	for v := least; v < most; {
		v *= 10
		p.Ticks = append(p.Ticks, v)
	}
	return p
}

// X returns where the i-th number of callers stands.
func (p panel) X(i int) float64 {
	return tenths(float64(p.Left) + 320*(float64(i)+0.5)/float64(p.Levels))
}

// Y returns where a value stands.
func (p panel) Y(v float64) float64 {
	decades := math.Log10(max(v/p.Ticks[0], 1))
	return tenths(270 - 200*decades/float64(max(1, len(p.Ticks)-1)))
}

func tenths(v float64) float64 { return math.Round(10*v) / 10 }

// line shows a figure of a series.
type line struct {
	Colour string
	Dashed bool
	Points []struct{ X, Y float64 }
}

// line returns the line of a figure, where it was measured.
func (r *Report) line(p panel, series, figure, colour string) line {
	one := line{Colour: colour, Dashed: figure == p99}
	levels, _ := r.swept()
	for i, callers := range levels {
		if v, ok := r.At(series, callers).Median[figure]; ok {
			one.Points = append(one.Points, struct{ X, Y float64 }{p.X(i), p.Y(v)})
		}
	}
	return one
}

// plot returns an SVG of the sweep: the throughput of each series, and its latencies.
func (r *Report) plot() string {
	levels, names := r.swept()
	fastest, slowest := 0.0, 0.0
	for _, s := range r.Scenarios {
		if s.Callers > 0 {
			fastest, slowest = max(fastest, s.Median[perSecond]), max(slowest, s.Median[p99])
		}
	}

	rates := newPanel(60, len(levels), "per second", 100, fastest)
	latencies := newPanel(460, len(levels), "milliseconds: p50 solid, p99 dashed", 0.1, slowest)
	colours := []string{"#d0782a", "#2f81f7", "#3d9a50"}
	var lines []line
	for i, series := range names {
		lines = append(lines, r.line(rates, series, perSecond, colours[i]),
			r.line(latencies, series, p50, colours[i]), r.line(latencies, series, p99, colours[i]))
	}
	return render("plot.svg.tmpl", template.FuncMap{"number": significant, "right": func(i int) int { return 60 + 150*i }},
		struct {
			Service        string
			Levels         []int
			Names, Colours []string
			Panels         []panel
			Lines          []line
		}{r.Options.Service, levels, names, colours, []panel{rates, latencies}, lines})
}
