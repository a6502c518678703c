package bench

import (
	"bytes"
	"fmt"
	"math"
)

// The plot has two panels. All colours are in the middle between black and white, so that it can be read on a light
// page and on a dark one; it has no background of its own.
const (
	plotWidth, plotHeight     = 800, 320
	panelWidth, panelHeight   = 320, 200
	panelTop                  = 70
	rateLeft, latencyLeft     = 60, 460
	shortest, longest         = 0.1, 1000.0 // milliseconds that the latencies' axis has at least
	plotText, plotGrid        = "#7d8590", "#7d859055"
	solid, dashed             = "", ` stroke-dasharray="5 4"`
	plotFont                  = `font-family="system-ui,sans-serif" font-size="12"`
	plotPoint, plotLineWeight = 3, 2
)

// colour returns that of the i-th series.
func colour(i int) string { return []string{"#d0782a", "#2f81f7", "#3d9a50"}[i%3] }

// panel is one diagram over the numbers of callers, which stand at equal distances.
type panel struct {
	left   int
	levels []int
	// at returns where between 0 at the bottom and 1 at the top a value stands.
	at func(v float64) float64
}

func (p panel) x(i int) float64 {
	return float64(p.left) + panelWidth*(float64(i)+0.5)/float64(len(p.levels))
}

func (p panel) y(v float64) float64 { return panelTop + panelHeight*(1-p.at(v)) }

// plot returns an SVG of the sweep: the throughput of each series, and its latencies.
func (r *Report) plot() []byte {
	levels, names := r.sweptPoints()
	highest, slowest := 0.0, longest
	for _, s := range r.Scenarios {
		if s.Callers > 0 {
			highest, slowest = max(highest, s.Median[perSecond]), max(slowest, s.Median[p99])
		}
	}
	step := niceStep(highest / 4)
	top, decades := step*math.Ceil(highest/step), math.Ceil(math.Log10(slowest/shortest))
	rates := panel{rateLeft, levels, func(v float64) float64 { return v / max(top, 1) }}
	latencies := panel{latencyLeft, levels, func(v float64) float64 {
		return math.Log10(max(v, shortest)/shortest) / decades
	}}
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" %s fill="%s">
<title>%s: throughput and latency by the number of callers</title>
`, plotWidth, plotHeight, plotFont, plotText, r.Options.Service)
	for i, name := range names {
		x := rateLeft + 150*i
		fmt.Fprintf(&svg, `<path d="M%d 20h24" stroke="%s" stroke-width="%d"/><text x="%d" y="24">%s</text>
`, x, colour(i), plotLineWeight, x+30, name)
	}
	rates.frame(&svg, "per second")
	for v := 0.0; v <= top; v += step {
		rates.tick(&svg, v, significant(v))
	}
	latencies.frame(&svg, "milliseconds: p50 solid, p99 dashed")
	for n := range int(decades) + 1 {
		v := shortest * math.Pow10(n)
		latencies.tick(&svg, v, significant(v))
	}
	for i, name := range names {
		r.line(&svg, rates, name, perSecond, i, solid)
		r.line(&svg, latencies, name, p50, i, solid)
		r.line(&svg, latencies, name, p99, i, dashed)
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
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

// frame writes the title and the axis of the callers.
func (p panel) frame(svg *bytes.Buffer, title string) {
	fmt.Fprintf(svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", p.left, panelTop-18, title)
	for i, callers := range p.levels {
		fmt.Fprintf(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
			p.x(i), panelTop+panelHeight+18, callers)
	}
	fmt.Fprintf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">callers</text>\n",
		p.left+panelWidth/2, panelTop+panelHeight+36)
}

// tick writes a value's line across the panel and its number.
func (p panel) tick(svg *bytes.Buffer, v float64, label string) {
	fmt.Fprintf(svg, `<path d="M%d %.1fh%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>
`, p.left, p.y(v), panelWidth, plotGrid, p.left-6, p.y(v)+4, label)
}

// line draws a figure of a series where it was measured.
func (r *Report) line(svg *bytes.Buffer, p panel, series, figure string, i int, dash string) {
	var path, points bytes.Buffer
	for at, callers := range p.levels {
		v, ok := r.sweptPoint(series, callers).Median[figure]
		if !ok {
			continue
		}
		command := "L"
		if path.Len() == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, p.x(at), p.y(v))
		fmt.Fprintf(&points, `<circle cx="%.1f" cy="%.1f" r="%d"/>`, p.x(at), p.y(v), plotPoint)
	}
	fmt.Fprintf(svg, `<path d="%s" fill="none" stroke="%s" stroke-width="%d"%s/><g fill="%s">%s</g>
`, &path, colour(i), plotLineWeight, dash, colour(i), &points)
}
