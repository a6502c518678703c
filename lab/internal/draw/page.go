// Package draw renders a dashboard with its figures as one self-contained SVG: the
// same panels on the same grid as Grafana has them, drawn plainly. It is for the
// pictures in docs, which are made where there is no Grafana.
package draw

import (
	_ "embed"
	"io"
	"time"

	"github.com/rowlock/rowlock/lab/internal/svg"
)

// The geometry, in pixels.
const (
	columnWidth = 52.0 // of the dashboard's 24
	rowHeight   = 30.0
	margin      = 16.0
	gap         = 8.0
	header      = 58.0
	footer      = 44.0
	columns     = 24
)

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// Series is a line.
type Series struct {
	Name   string
	Points []Point
}

// Panel is one picture on the page.
type Panel struct {
	// Kind is row, stat or timeseries, Unit one of Grafana's.
	Kind, Title, Unit string
	// X, Y, Width and Height are its place on the grid.
	X, Y, Width, Height int
	// Warn and Bad are thresholds; 0 for none.
	Warn, Bad float64
	// Stack puts the series on top of each other.
	Stack  bool
	Series []Series
}

// Page is a dashboard between two times.
type Page struct {
	Title, Caption string
	From, To       time.Time
	Panels         []Panel
}

// palette has a colour for each of the first series; others begin anew.
const palette = 9

// style makes one file readable on a light and on a dark page.
//
//go:embed style.css
var style string

// canvas draws panels.
type canvas struct{ svg.Canvas }

// WriteSVG draws the page.
func (p *Page) WriteSVG(w io.Writer) error {
	c := &canvas{}
	bottom := 0
	for _, one := range p.Panels {
		bottom = max(bottom, one.Y+one.Height)
	}
	width := 2*margin + columns*columnWidth
	height := header + float64(bottom)*rowHeight + footer

	c.Text(margin, 36, "h1", "start", p.Title)
	c.Text(width-margin, 36, "s", "end", p.From.UTC().Format("2006-01-02 15:04")+" to "+p.To.UTC().Format("15:04")+" UTC")
	for i := range p.Panels {
		p.draw(c, &p.Panels[i])
	}
	c.Text(margin, height-20, "s", "start", p.Caption)
	return c.Write(w, width, height, p.Title, style)
}

// frame is a rectangle of the page.
type frame struct{ left, top, width, height float64 }

func (f frame) right() float64 { return f.left + f.width }

func (f frame) bottom() float64 { return f.top + f.height }

func (p *Page) draw(c *canvas, one *Panel) {
	f := frame{
		left: margin + float64(one.X)*columnWidth, top: header + float64(one.Y)*rowHeight,
		width: float64(one.Width)*columnWidth - gap, height: float64(one.Height)*rowHeight - gap,
	}
	if one.Kind == "row" {
		c.Text(f.left, f.bottom(), "h2", "start", one.Title)
		return
	}
	c.Printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" class="panel"/>`, f.left, f.top, f.width, f.height)
	c.Text(f.left+12, f.top+22, "t", "start", one.Title)
	if one.Kind == "stat" {
		c.stat(one, f)
		return
	}
	c.plot(one, f, p.From, p.To)
}

// stat writes the last value of each series.
func (c *canvas) stat(one *Panel, f frame) {
	class := "v"
	if len(one.Series) > 1 {
		class = "v2"
	}
	for i, s := range one.Series {
		text, colour := "no data", "s"
		if n := len(s.Points); n > 0 {
			value := s.Points[n-1].Value
			text, colour = format(one.Unit, value), one.colour(value)
		}
		x := f.left + f.width*(float64(i)+0.5)/float64(len(one.Series))
		c.Text(x, f.top+72, class+" "+colour, "middle", text)
		if len(one.Series) > 1 {
			c.Text(x, f.top+96, "s", "middle", s.Name)
		}
	}
}

func (p *Panel) colour(value float64) string {
	switch {
	case p.Bad != 0 && value >= p.Bad:
		return "tb"
	case p.Warn != 0 && value >= p.Warn:
		return "tw"
	default:
		return "ok"
	}
}
