package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/svg"
)

// The geometry of the plot, in pixels.
const (
	plotWidth  = 960.0
	plotMargin = 24.0
	labelWidth = 250.0 // left of the bars
	barHeight  = 22.0
	barGap     = 8.0
	panelGap   = 60.0
	panelTall  = 260.0
	axisLeft   = 70.0
)

// curveNines is how many nines the latency axis has: 90, 99, 99.9 and 99.99 %.
const curveNines = 4

// plotStyle makes one file readable on a light and on a dark page.
const plotStyle = `
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.small{font-size:11px;fill:#59636e}
.page{fill:#fff}.grid{stroke:#d1d9e0;stroke-width:1}.base{fill:#8c959f}.service{fill:#0969da}.bar{stroke:#cf222e;stroke-dasharray:5 4}
.line{fill:none;stroke:#0969da;stroke-width:1.8}.line.b{stroke:#1a7f37}.line.c{stroke:#9a6700}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#3d444d}.base{fill:#656c76}
.service{fill:#4493f8}.line{stroke:#4493f8}.line.b{stroke:#3fb950}.line.c{stroke:#d29922}.bar{stroke:#f85149}}
`

// WriteSVG draws the report as one self-contained picture: throughput beside its baselines, the latencies of the open loop by
// percentile, and the memory of its replicas over time.
func (r *Report) WriteSVG(w io.Writer) error {
	p := &plot{}
	y := p.throughput(r, plotMargin)

	if open := r.find(scenarioOpen); open != nil {
		y = p.latencies(open, y+panelGap)
		y = p.memory(open, y+panelGap)
	}

	caption := fmt.Sprintf("rowlock bench %s, %s: %s, %d cores for client, replicas and PostgreSQL %s",
		r.Service, r.Started.Format(time.DateOnly), r.Machine.CPU, r.Machine.Cores, r.Machine.PostgreSQL)
	y += plotMargin
	p.Text(plotMargin, y, "small", "start", caption)

	return p.Write(w, plotWidth, y+plotMargin, caption, plotStyle)
}

// plot draws the picture; every method that draws a panel gets its top and returns its bottom.
type plot struct{ svg.Canvas }

func (p *plot) throughput(r *Report, top float64) float64 {
	p.Text(plotMargin, top+16, "title", "start", "Requests per second, saturated (grey: bare pgbench)")

	y, most := top+34, 1.0
	for _, s := range r.Scenarios {
		most = max(most, s.Median.PerSecond)
	}

	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		if len(s.Runs) == 0 || s.Name == scenarioOpen {
			continue
		}

		class, value := "base", thousands(s.Median.PerSecond)
		if s.Baseline != "" {
			class = "service"
		}

		if x := r.ratio(s); x > 0 {
			value += fmt.Sprintf("  (%.2f x)", x)
		}

		width := s.Median.PerSecond / most * (plotWidth - labelWidth - plotMargin - 130)

		p.Text(labelWidth-8, y+barHeight-6, "", "end", s.Title)
		p.Printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"/>`, labelWidth, y, width, barHeight, class)
		p.Text(labelWidth+width+8, y+barHeight-6, "", "start", value)

		y += barHeight + barGap
	}

	return y
}

func (p *plot) latencies(open *Series, top float64) float64 {
	p.Text(plotMargin, top, "title", "start", "Latency by percentile, "+open.Title)

	// Whole decades around the figures and the requirement.
	least, most := math.Inf(1), float64(requiredP99)

	for _, run := range open.Runs {
		for _, point := range run.Curve {
			least, most = min(least, float64(point.Latency)), max(most, float64(point.Latency))
		}
	}

	low, high := math.Floor(math.Log10(max(1e3, min(least, most)))), math.Ceil(math.Log10(most))
	frame := area{
		left: axisLeft, right: plotWidth - plotMargin, top: top + 16, bottom: top + panelTall,
		xMost: curveNines, yLeast: low, yMost: high,
	}

	for decade := low; decade <= high; decade++ {
		p.Line(frame.left, frame.y(decade), frame.right, frame.y(decade), "grid")
		p.Text(frame.left-8, frame.y(decade)+4, "small", "end", time.Duration(math.Pow(10, decade)).String())
	}

	for nines := range curveNines + 1 {
		label, anchor := "0 %", "middle"
		if nines == curveNines {
			anchor = "end"
		}

		if nines > 0 {
			label = fmt.Sprintf("%.*f %%", max(0, nines-2), 100*(1-math.Pow(10, -float64(nines))))
		}

		p.Line(frame.x(float64(nines)), frame.top, frame.x(float64(nines)), frame.bottom, "grid")
		p.Text(frame.x(float64(nines)), frame.bottom+16, "small", anchor, label)
	}

	for _, limit := range []time.Duration{barOpenP99, requiredP99} {
		y := frame.y(math.Log10(float64(limit)))
		p.Line(frame.left, y, frame.right, y, "bar")
		p.Text(frame.right, y-4, "small", "end", "p99 limit "+limit.String())
	}

	for i, run := range open.Runs {
		p.polyline(frame, i, len(run.Curve), func(j int) (x, y float64) {
			return float64(j) / float64(max(1, len(run.Curve)-1)) * curveNines, math.Log10(max(1e3, float64(run.Curve[j].Latency)))
		})
	}

	return frame.bottom + 16
}

func (p *plot) memory(open *Series, top float64) float64 {
	last := open.Runs[len(open.Runs)-1].Memory
	if len(last) < 2 {
		return top - panelGap
	}

	p.Text(plotMargin, top, "title", "start", "Memory of each replica, same load, last run")

	most := 1.0

	for _, sample := range last {
		for _, rss := range sample.RSS {
			most = max(most, float64(rss)/(1<<20))
		}
	}

	step := svg.NiceStep(most / 4)
	frame := area{
		left: axisLeft, right: plotWidth - plotMargin, top: top + 16, bottom: top + panelTall/1.6,
		xMost: last[len(last)-1].At.Seconds(), yMost: math.Ceil(most/step) * step,
	}

	for mib := 0.0; mib <= frame.yMost; mib += step {
		p.Line(frame.left, frame.y(mib), frame.right, frame.y(mib), "grid")
		p.Text(frame.left-8, frame.y(mib)+4, "small", "end", fmt.Sprintf("%g MiB", mib))
	}

	p.Text(frame.left, frame.bottom+16, "small", "middle", "0 s")
	p.Text(frame.right, frame.bottom+16, "small", "end", fmt.Sprintf("%.0f s", frame.xMost))

	for replica := range last[0].RSS {
		p.polyline(frame, replica, len(last), func(j int) (x, y float64) {
			return last[j].At.Seconds(), float64(last[j].RSS[replica]) / (1 << 20)
		})
	}

	return frame.bottom + 16
}

// area maps figures to pixels. The x axis begins at 0.
type area struct{ left, right, top, bottom, xMost, yLeast, yMost float64 }

func (a area) x(v float64) float64 { return a.left + v/a.xMost*(a.right-a.left) }

func (a area) y(v float64) float64 {
	return a.bottom - (v-a.yLeast)/(a.yMost-a.yLeast)*(a.bottom-a.top)
}

func (p *plot) polyline(frame area, index, n int, at func(i int) (x, y float64)) {
	if n == 0 {
		return
	}

	points := make([]string, 0, n)

	for i := range n {
		x, y := at(i)
		points = append(points, fmt.Sprintf("%.1f,%.1f", frame.x(x), frame.y(y)))
	}

	class := [...]string{"line", "line b", "line c"}[index%3]
	p.Printf(`<polyline class="%s" points="%s"/>`, class, strings.Join(points, " "))
}
