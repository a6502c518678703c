// Package plot draws lines as a self-contained SVG picture, by gonum.org/v1/plot.
package plot

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure holds charts below each other.
type Figure struct {
	// Width and Height are the size of each chart in points.
	Width, Height float64
	Charts        []Chart
}

// Chart holds lines over one pair of axes. The Y axis begins at 0.
type Chart struct {
	// Label stands beside the Y axis.
	Label string
	Lines []Line
	Bands []Band
}

// Line is a series of points in the order of X, with a name for the legend.
type Line struct {
	Name   string
	Points []Point
}

// Point is one value Y at X, both finite.
type Point = plotter.XY

// Band marks a stretch of the X axis over the whole height, with its name at the top.
type Band struct {
	Name     string
	From, To float64
}

const gap = 12 // points between charts

// WriteSVG writes the figure as one <svg> element, which also stands as a file of its own.
func (f Figure) WriteSVG(w io.Writer) error {
	picture := vgsvg.New(vg.Length(f.Width), vg.Length(float64(len(f.Charts))*(f.Height+gap)))
	tiles := draw.Tiles{Cols: 1, Rows: len(f.Charts), PadY: gap}
	for i, chart := range f.Charts {
		chart.build().Draw(tiles.At(draw.New(picture), 0, i))
	}
	var svg bytes.Buffer
	_, err := picture.WriteTo(&svg)
	// Few machines have the font whose widths gonum computes with, and a page takes no XML declaration.
	_, text, _ := strings.Cut(svg.String(), "<svg")
	const font = "font-family:Liberation Sans"
	if err == nil {
		_, err = io.WriteString(w, "<svg"+strings.ReplaceAll(text, font, font+",Arial,sans-serif"))
	}
	if err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}
	return nil
}

func (c Chart) build() *plot.Plot {
	p := plot.New()
	p.Y.Label.Text, p.Legend.Top = c.Label, true
	p.Add(plotter.NewGrid())
	for _, style := range []*draw.TextStyle{
		&p.Legend.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font.Variant, style.Font.Size = "Sans", 9
	}
	for i, series := range c.Lines {
		line := &plotter.Line{
			XYs: series.Points, LineStyle: draw.LineStyle{Color: plotutil.Color(i), Width: 1.2},
		}
		if len(line.XYs) > 0 { // gonum has no range for an empty line
			p.Add(line)
		}
		p.Legend.Add(series.Name, line)
	}
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0), max(p.Y.Max, 0)
	for _, band := range c.Bands {
		band.add(p)
	}
	return p
}

// add draws the band over the height that the lines have given the plot.
func (b Band) add(p *plot.Plot) {
	name := p.X.Tick.Label
	name.XAlign, name.YAlign, name.Font.Size = draw.XLeft, draw.YTop, 7
	corners := plotter.XYs{{X: b.From, Y: p.Y.Max}, {X: b.From, Y: p.Y.Min}, {X: b.To, Y: p.Y.Min}, {X: b.To, Y: p.Y.Max}}

	p.Add(
		&plotter.Polygon{XYs: []plotter.XYs{corners}, Color: color.NRGBA{R: 120, G: 120, B: 120, A: 24}},
		&plotter.Labels{XYs: corners[:1], Labels: []string{b.Name}, TextStyle: []draw.TextStyle{name}},
	)
}
