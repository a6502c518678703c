// Package draw renders a dashboard with its figures as one self-contained SVG: the
// same panels on the same grid as Grafana has them, drawn plainly. It is for the
// pictures in docs, which are made where there is no Grafana.
package draw

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
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

// canvas gathers the elements.
type canvas struct{ body strings.Builder }

func (c *canvas) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(&c.body, format+"\n", args...) // a strings.Builder does not fail
}

func (c *canvas) text(x, y float64, class, anchor, text string) {
	c.printf(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, escape(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder does not fail
	return out.String()
}

// WriteSVG draws the page.
func (p *Page) WriteSVG(w io.Writer) error {
	c := &canvas{}
	bottom := 0
	for _, one := range p.Panels {
		bottom = max(bottom, one.Y+one.Height)
	}
	width := 2*margin + columns*columnWidth
	height := header + float64(bottom)*rowHeight + footer

	c.text(margin, 36, "h1", "start", p.Title)
	c.text(width-margin, 36, "s", "end", p.From.UTC().Format("2006-01-02 15:04")+" to "+p.To.UTC().Format("15:04")+" UTC")
	for i := range p.Panels {
		p.draw(c, &p.Panels[i])
	}
	c.text(margin, height-20, "s", "start", p.Caption)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img"><title>%s</title>
<style>
%s</style>
<rect class="page" width="100%%" height="100%%"/>
%s</svg>
`, width, height, escape(p.Title), style, c.body.String())
	if err != nil {
		return fmt.Errorf("draw %s: %w", p.Title, err)
	}
	return nil
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
		c.text(f.left, f.bottom(), "h2", "start", one.Title)
		return
	}
	c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" class="panel"/>`, f.left, f.top, f.width, f.height)
	c.text(f.left+12, f.top+22, "t", "start", one.Title)
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
		c.text(x, f.top+72, class+" "+colour, "middle", text)
		if len(one.Series) > 1 {
			c.text(x, f.top+96, "s", "middle", s.Name)
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
