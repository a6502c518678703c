// Package svg writes what the pictures of the lab have in common: elements of a self-contained SVG that one style makes readable on a
// light and on a dark page. What is drawn, and where, is the business of packages bench and draw.
package svg

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Canvas gathers the elements of a picture, in pixels from the upper left corner. Its zero value is empty.
type Canvas struct{ body strings.Builder }

// Printf adds an element as it is: what comes from outside goes through [Escape].
func (c *Canvas) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(&c.body, format+"\n", args...) // a strings.Builder does not fail
}

// Text adds a line of text; anchor is SVG's: start, middle or end.
func (c *Canvas) Text(x, y float64, class, anchor, text string) {
	c.Printf(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, Escape(text))
}

// Line adds a straight line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	c.Printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// Write writes the picture; style is CSS, in which the class "page" is the background.
func (c *Canvas) Write(w io.Writer, width, height float64, title, style string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img"><title>%s</title>
<style>
%s</style>
<rect class="page" width="100%%" height="100%%"/>
%s</svg>
`, width, height, Escape(title), style, c.body.String())
	if err != nil {
		return fmt.Errorf("draw %s: %w", title, err)
	}
	return nil
}

// Escape makes text fit into an element or an attribute.
func Escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder does not fail
	return out.String()
}

// NiceStep is the next of 1, 2, 5, 10 and so on that is not below least, which is above 0.
func NiceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, step := range []float64{1, 2, 5} {
		if step*power >= least*0.9999 {
			return step * power
		}
	}
	return 10 * power
}
