package prove

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// page is what the template sees.
type page struct {
	*Report

	Failures []Failure
	Services []string
	Windows  []pageWindow
	Charts   []chart
}

type pageWindow struct {
	*WindowResult

	Columns  []pageColumn
	Cells    []*pageColumn // one for each service of the run; nil where it took no part
	Pictures []picture
}

type pageColumn struct {
	ColumnResult

	LeftOut string // why, where the window was not run for the service
}

type chart struct {
	Service string
	SVG     template.HTML
}

type picture struct{ Name, HTML string }

// Holds tells whether all of the service's checks of the window hold.
func (c pageColumn) Holds() bool {
	return !slices.ContainsFunc(c.AllChecks(), func(one Check) bool { return !one.OK })
}

// AllChecks are those of the service and those of the fault.
func (c pageColumn) AllChecks() []Check { return slices.Concat(c.Checks, c.Sometimes) }

// Failed tells whether a service's checks of the window failed.
func (w pageWindow) Failed() bool {
	return slices.ContainsFunc(w.Columns, func(c pageColumn) bool { return !c.Holds() })
}

// cells makes one for each service.
func (w pageWindow) cells(services []string) []*pageColumn {
	cells := make([]*pageColumn, len(services))
	for i := range w.Columns {
		cells[slices.Index(services, w.Columns[i].Service)] = &w.Columns[i]
	}
	for _, one := range w.LeftOut {
		cells[slices.Index(services, one.Service)] = &pageColumn{LeftOut: one.Reason}
	}
	return cells
}

// What says what was done in the window.
func (w pageWindow) What() string {
	var parts []string
	for _, c := range w.Columns {
		if d := done(c.Done); d != "" && !slices.Contains(parts, d) {
			parts = append(parts, d)
		}
	}
	return strings.Join(parts, "; ")
}

// WritePage writes the proof as one HTML page that needs nothing else.
func (r *Report) WritePage(out io.Writer) error {
	p := page{Report: r, Failures: r.Failures()}
	for _, w := range r.Windows {
		one := pageWindow{WindowResult: w}
		p.meet(w)
		for _, c := range w.Columns {
			one.Columns = append(one.Columns, pageColumn{ColumnResult: c})
			for _, check := range c.Checks {
				if text, err := os.ReadFile(check.Picture); check.Picture != "" && err == nil {
					one.Pictures = append(one.Pictures, picture{c.Service + ": " + check.Name, string(text)})
				}
			}
		}
		p.Windows = append(p.Windows, one)
	}
	for i, w := range p.Windows {
		p.Windows[i].Cells = w.cells(p.Services)
	}
	for _, service := range p.Services {
		p.Charts = append(p.Charts, chart{service, r.chart(service)})
	}
	tmpl, err := template.New("page").Funcs(template.FuncMap{"seconds": seconds}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	if err := tmpl.Execute(out, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// meet adds the window's services to those of the page.
func (p *page) meet(w *WindowResult) {
	names := make([]string, 0, len(w.Columns)+len(w.LeftOut))
	for _, c := range w.Columns {
		names = append(names, c.Service)
	}
	for _, one := range w.LeftOut {
		names = append(names, one.Service)
	}
	for _, name := range names {
		if !slices.Contains(p.Services, name) {
			p.Services = append(p.Services, name)
		}
	}
}

func seconds(d time.Duration) string { return round(d).String() }

// The size of a chart, in the units of its SVG.
const (
	chartWidth  = 1140.0
	chartLeft   = 46.0
	chartTop    = 18.0
	barsHeight  = 90.0
	lineHeight  = 60.0
	chartGap    = 14.0
	chartHeight = chartTop + barsHeight + chartGap + lineHeight + 8
)

// chart draws a service's throughput and latency over the whole run. It holds
// numbers and the names of windows, which are ours.
func (r *Report) chart(service string) template.HTML {
	var all []Second
	highest, slowest := 1, time.Millisecond
	for _, w := range r.Windows {
		for _, c := range w.Columns {
			if c.Service != service {
				continue
			}
			for _, s := range c.Seconds {
				all = append(all, s)
				highest, slowest = max(highest, s.OK+s.Other), max(slowest, s.P99)
			}
		}
	}
	last := 1.0
	for _, w := range r.Windows {
		last = max(last, w.To.Seconds())
	}
	x := func(seconds float64) float64 { return chartLeft + (chartWidth-chartLeft)*min(seconds/last, 1) }
	var b strings.Builder
	draw := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) }
	draw(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s over time">`, chartWidth, chartHeight, service)
	r.drawWindows(service, draw, x)
	scale := barsHeight / float64(highest)
	width := max(x(1)-x(0)-1, 1)
	for _, s := range all {
		ok, other := float64(s.OK)*scale, float64(s.Other)*scale
		at := x(float64(s.At))
		draw(`<rect class="ok" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, at, chartTop+barsHeight-ok, width, ok)
		if s.Other > 0 {
			draw(`<rect class="other" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, at, chartTop+barsHeight-ok-other, width, other)
		}
	}
	bottom := chartTop + barsHeight + chartGap + lineHeight
	draw(`<polyline class="p99" points="`)
	for _, s := range all {
		draw("%.1f,%.1f ", x(float64(s.At)+0.5), bottom-lineHeight*float64(s.P99)/float64(slowest))
	}
	draw(`"/><text x="0" y="%.0f">%d/s</text><text x="0" y="%.0f">%s</text>`,
		chartTop+10, highest, chartTop+barsHeight+chartGap+10, round(slowest))
	draw(`<line class="axis" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/></svg>`, chartLeft, chartWidth, bottom, bottom)
	return template.HTML(b.String()) //nolint:gosec // numbers and names of ours
}

// drawWindows draws those that were run, with the faults of those in which the service took part.
func (r *Report) drawWindows(service string, draw func(string, ...any), x func(float64) float64) {
	for i, w := range r.Windows {
		if len(w.Columns) == 0 {
			continue
		}
		class := "band"
		if i%2 == 1 {
			class = "band odd"
		}
		from, to := x(w.From.Seconds()), x(w.To.Seconds())
		draw(`<rect class="%s" x="%.1f" y="0" width="%.1f" height="%.0f"/><text x="%.1f" y="12">%s</text>`,
			class, from, to-from, chartHeight, from+3, w.Name)
		if !slices.ContainsFunc(w.Columns, func(c ColumnResult) bool { return c.Service == service }) {
			continue
		}
		for _, e := range w.Events {
			at := x((w.From + e.At).Seconds())
			draw(`<line class="event" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, at, at, chartTop-4, chartTop)
		}
	}
}
