// Package plot draws lines as a self-contained SVG picture, by gonum.org/v1/plot.
package plot

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure holds charts on a grid, row by row.
type Figure struct {
	// Columns is the number of charts beside each other, at least 1.
	Columns int
	// Width and Height are the size of each chart in points.
	Width, Height float64
	Charts        []Chart
}

// Chart holds lines over one pair of axes. The Y axis begins at 0, a logarithmic one at a power of ten.
type Chart struct {
	Title string
	X, Y  Axis
	// LogY makes the Y axis logarithmic; points that are not positive are left out.
	LogY  bool
	Lines []Line
	Bands []Band
	// Limits are drawn as dashed horizontal lines.
	Limits []float64
}

// Axis says how the values along an axis are written.
type Axis struct {
	Label string
	// Format writes the value at a tick; nil writes the number.
	Format func(float64) string
}

// Line is a series of points in the order of X; an empty name is left out of the legend. Points with NaN or an infinity are left out.
type Line struct {
	Name   string
	Points []Point
}

// Point is one value Y at X.
type Point struct{ X, Y float64 }

// Band marks a stretch of the X axis over the whole height, with its name at the top.
type Band struct {
	Name     string
	From, To float64
}

const gap = 12 // points around and between charts

// WriteSVG writes the figure as one <svg> element, which also stands as a file of its own.
func (f Figure) WriteSVG(w io.Writer) error {
	rows := (len(f.Charts) + f.Columns - 1) / f.Columns
	picture := vgsvg.New(vg.Length(float64(f.Columns)*(f.Width+gap)+gap), vg.Length(float64(rows)*(f.Height+gap)+gap))
	tiles := draw.Tiles{
		Cols: f.Columns, Rows: rows, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap,
	}

	for i, chart := range f.Charts {
		chart.build().Draw(tiles.At(draw.New(picture), i%f.Columns, i/f.Columns))
	}

	var svg bytes.Buffer
	if _, err := picture.WriteTo(&svg); err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}

	// Few machines have the font whose widths gonum computes with, and a page takes no XML declaration.
	text := svg.Bytes()[bytes.Index(svg.Bytes(), []byte("<svg")):]
	text = bytes.ReplaceAll(text, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,sans-serif"))

	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}

	return nil
}

func (c Chart) build() *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text, p.Legend.Top = c.Title, c.X.Label, c.Y.Label, true
	p.Add(plotter.NewGrid())

	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font.Variant, style.Font.Size = "Sans", 9
	}

	for i, series := range c.Lines {
		line := &plotter.Line{XYs: c.drawn(series.Points), LineStyle: draw.LineStyle{Color: plotutil.Color(i), Width: 1.2}}
		p.Add(line)

		if series.Name != "" {
			p.Legend.Add(series.Name, line)
		}
	}

	for _, limit := range c.Limits {
		p.Y.Max = max(p.Y.Max, limit)
		line := plotter.NewFunction(func(float64) float64 { return limit })
		line.Color, line.Dashes = color.RGBA{R: 200, A: 255}, []vg.Length{4, 3}
		p.Add(line)
	}

	p.X.Tick.Marker = c.X.ticks(plot.DefaultTicks{})

	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, c.Y.ticks(plot.LogTicks{})
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
		p.Y.Max = max(math.Pow(10, math.Ceil(math.Log10(p.Y.Max))), 10*p.Y.Min)
	} else {
		p.Y.Tick.Marker, p.Y.Min = c.Y.ticks(plot.DefaultTicks{}), min(p.Y.Min, 0)
	}

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

// drawn returns the points that the chart can show, and one anywhere when there is none: gonum has no range for an empty line.
func (c Chart) drawn(points []Point) plotter.XYs {
	xys := make(plotter.XYs, 0, len(points))

	for _, p := range points {
		if !math.IsNaN(p.Y) && !math.IsInf(p.Y, 0) && (p.Y > 0 || !c.LogY) {
			xys = append(xys, plotter.XY(p))
		}
	}

	if len(xys) == 0 {
		xys = append(xys, plotter.XY{X: 1, Y: 1})
	}

	return xys
}

// ticks writes the labels of another ticker in the axis' format.
func (a Axis) ticks(ticker plot.Ticker) plot.Ticker {
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		all := ticker.Ticks(low, high)
		for i := range all {
			if all[i].Label != "" && a.Format != nil {
				all[i].Label = a.Format(all[i].Value)
			}
		}

		return all
	})
}
