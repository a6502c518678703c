package bench

import (
	"embed"
	"encoding/json"
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

// Save writes the report's JSON form into the folder, named after the service, over that of the last time. It returns
// the file's path.
func (r *Report) Save(dir string) (file string, err error) {
	file = filepath.Join(dir, r.Options.Service+".json")
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = write(file, append(raw, '\n'))
	}
	if err != nil {
		return "", fmt.Errorf("save the report: %w", err)
	}
	return file, nil
}

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
	if levels, _ := r.swept(); err == nil && len(levels) > 0 {
		err = write(filepath.Join(folder, plot), []byte(r.plot()))
	}
	if err != nil {
		return fmt.Errorf("publish the report: %w", err)
	}
	return nil
}

// write writes a file, and its folder where it is missing.
func write(file string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, content, 0o644)
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

// panel is one diagram over the numbers of callers, which stand at equal distances.
type panel struct {
	Left   int
	Title  string
	Ticks  []float64 // the values that have a line across
	levels int
	// at returns where between 0 at the bottom and 1 at the top a value stands.
	at func(v float64) float64
}

// X returns where the i-th number of callers stands.
func (p panel) X(i int) float64 {
	return tenths(float64(p.Left) + 320*(float64(i)+0.5)/float64(p.levels))
}

// Y returns where a value stands.
func (p panel) Y(v float64) float64 { return tenths(70 + 200*(1-p.at(v))) }

func tenths(v float64) float64 { return math.Round(10*v) / 10 }

// label names a series in its colour.
type label struct {
	X            int
	Colour, Name string
}

// line shows a figure of a series. Dash is an attribute.
type line struct {
	Colour, Dash string
	Points       []struct{ X, Y float64 }
}

// line returns the line of a figure, where it was measured.
func (r *Report) line(p panel, series, figure, colour, dash string) line {
	one := line{Colour: colour, Dash: dash}
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
	const shortest = 0.1 // milliseconds; the axis ends at 1 s or later
	levels, names := r.swept()
	highest, slowest := 0.0, 1000.0
	for _, s := range r.Scenarios {
		if s.Callers > 0 {
			highest, slowest = max(highest, s.Median[perSecond]), max(slowest, s.Median[p99])
		}
	}

	step := niceStep(highest / 4)
	top, decades := step*math.Ceil(highest/step), math.Ceil(math.Log10(slowest/shortest))
	rates := panel{
		Left: 60, Title: "per second", levels: len(levels),
		at: func(v float64) float64 { return v / max(top, 1) },
	}
	for v := 0.0; v <= top; v += step {
		rates.Ticks = append(rates.Ticks, v)
	}
	latencies := panel{
		Left: 460, Title: "milliseconds: p50 solid, p99 dashed", levels: len(levels),
		at: func(v float64) float64 { return math.Log10(max(v, shortest)/shortest) / decades },
	}
	for n := range int(decades) + 1 {
		latencies.Ticks = append(latencies.Ticks, shortest*math.Pow10(n))
	}

	lines, legend := make([]line, 0, 3*len(names)), make([]label, 0, len(names))
	for i, series := range names {
		colour := []string{"#d0782a", "#2f81f7", "#3d9a50"}[i%3]
		legend = append(legend, label{60 + 150*i, colour, series})
		lines = append(lines,
			r.line(rates, series, perSecond, colour, ""), r.line(latencies, series, p50, colour, ""),
			r.line(latencies, series, p99, colour, ` stroke-dasharray="5 4"`))
	}
	return render("plot.svg.tmpl", template.FuncMap{"number": significant}, struct {
		Service string
		Levels  []int
		Legend  []label
		Panels  []panel
		Lines   []line
	}{r.Options.Service, levels, legend, []panel{rates, latencies}, lines})
}

// niceStep returns the least of 1, 2 and 5 times a power of ten that is not below v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= v {
			return n * power
		}
	}
	return 10 * power
}
