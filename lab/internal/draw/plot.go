package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/svg"
)

const (
	axisWidth    = 58.0
	legendLine   = 17.0
	legendLines  = 3
	letter       = 6.6 // about the width of a letter of the legend
	horizontals  = 4
	verticals    = 4
	titleHeight  = 34.0
	xAxisHeight  = 20.0
	gapsOfPoints = 3 // a line ends where so many points are missing
)

// scale puts values into a frame.
type scale struct {
	frame    frame
	from, to time.Time
	top      float64
}

func (s scale) x(t time.Time) float64 {
	return s.frame.left + s.frame.width*float64(t.Sub(s.from))/float64(s.to.Sub(s.from))
}

func (s scale) y(v float64) float64 { return s.frame.bottom() - s.frame.height*v/s.top }

// plot draws the series of a panel over time.
func (c *canvas) plot(one *Panel, f frame, from, to time.Time) {
	series := visible(one.Series)
	lines := legend(series, f.width-24)
	area := frame{left: f.left + axisWidth, top: f.top + titleHeight, width: f.width - axisWidth - 14}
	area.height = f.height - titleHeight - xAxisHeight - float64(len(lines))*legendLine - 8
	var below []Series
	if one.Stack {
		series, below = stacked(series)
	}
	s := scale{frame: area, from: from, to: to, top: ceiling(one, series)}

	step := niceStep(one.Unit, s.top/horizontals)
	for v := 0.0; v <= s.top*1.0001; v += step {
		c.Line(area.left, s.y(v), area.right(), s.y(v), "grid")
		c.Text(area.left-6, s.y(v)+4, "s", "end", format(one.Unit, v))
	}
	for _, at := range times(from, to) {
		c.Line(s.x(at), area.top, s.x(at), area.bottom(), "grid")
		c.Text(s.x(at), area.bottom()+16, "s", "middle", at.UTC().Format("15:04"))
	}
	c.Line(area.left, area.bottom(), area.right(), area.bottom(), "axis")
	if one.Warn != 0 && one.Warn <= s.top {
		c.Line(area.left, s.y(one.Warn), area.right(), s.y(one.Warn), "warn")
	}
	if one.Bad != 0 && one.Bad <= s.top {
		c.Line(area.left, s.y(one.Bad), area.right(), s.y(one.Bad), "bad")
	}
	for i, next := range series {
		if one.Stack {
			c.band(s, below[i], next, colour(series, i))
		}
		c.series(s, next, colour(series, i))
	}
	for i, line := range lines {
		x := f.left + 12
		y := f.bottom() - 10 - float64(len(lines)-1-i)*legendLine
		for _, entry := range line {
			if entry.colour >= 0 {
				c.Printf(`<rect x="%.1f" y="%.1f" width="12" height="4" class="k%d"/>`, x, y-6, entry.colour)
				x += 17
			}
			c.Text(x, y, "s", "start", entry.text)
			x += entry.width()
		}
	}
}

// colour is that of a series by the order of the names, so that a service has the same one in every panel of services.
func colour(list []Series, i int) int {
	before := 0
	for _, other := range list {
		if other.Name < list[i].Name {
			before++
		}
	}
	return before % palette
}

// path are points in pixels, as SVG writes them.
func (s scale) path(points []Point) string {
	var text strings.Builder
	for _, p := range points {
		_, _ = fmt.Fprintf(&text, "%.0f,%.1f ", s.x(p.Time), s.y(min(p.Value, s.top)))
	}
	return strings.TrimSpace(text.String())
}

// series draws a line.
func (c *canvas) series(s scale, one Series, colour int) {
	for _, run := range runs(one.Points) {
		if len(run) == 1 {
			c.Printf(`<circle cx="%.0f" cy="%.1f" r="1.7" class="k%d"/>`, s.x(run[0].Time), s.y(min(run[0].Value, s.top)), colour)
			continue
		}
		c.Printf(`<polyline points="%s" class="l k%d"/>`, s.path(run), colour)
	}
}

// band fills what a stacked series adds to those below it, which has the same times.
func (c *canvas) band(s scale, below, one Series, colour int) {
	begin := 0
	for _, run := range runs(one.Points) {
		bottom := slices.Clone(below.Points[begin : begin+len(run)])
		begin += len(run)
		slices.Reverse(bottom)
		c.Printf(`<polygon points="%s %s" class="area k%d"/>`, s.path(run), s.path(bottom), colour)
	}
}

// visible are the series that have a value, those with the largest one first.
func visible(list []Series) []Series {
	most := map[string]float64{}
	shown := make([]Series, 0, len(list))
	for _, s := range list {
		largest := math.Inf(-1)
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) })
		for _, p := range s.Points {
			largest = max(largest, p.Value)
		}
		if len(s.Points) > 0 {
			most[s.Name] = largest
			shown = append(shown, s)
		}
	}
	slices.SortStableFunc(shown, func(a, b Series) int {
		switch {
		case most[a.Name] > most[b.Name]:
			return -1
		case most[a.Name] < most[b.Name]:
			return 1
		default:
			return strings.Compare(a.Name, b.Name)
		}
	})
	return shown
}

// stacked puts each series on top of those before it, and also returns what it stands on.
func stacked(list []Series) (tops, bottoms []Series) {
	sums := map[int64]float64{}
	for _, s := range list {
		top, bottom := Series{Name: s.Name}, Series{Name: s.Name}
		for _, p := range s.Points {
			at := p.Time.UnixMilli()
			bottom.Points = append(bottom.Points, Point{Time: p.Time, Value: sums[at]})
			sums[at] += p.Value
			top.Points = append(top.Points, Point{Time: p.Time, Value: sums[at]})
		}
		tops, bottoms = append(tops, top), append(bottoms, bottom)
	}
	return tops, bottoms
}

// runs are the pieces of a line between gaps.
func runs(points []Point) [][]Point {
	step := time.Duration(math.MaxInt64)
	for i := 1; i < len(points); i++ {
		step = min(step, points[i].Time.Sub(points[i-1].Time))
	}
	var list [][]Point
	begin := 0
	for i := 1; i <= len(points); i++ {
		if i == len(points) || points[i].Time.Sub(points[i-1].Time) >= gapsOfPoints*step {
			list = append(list, points[begin:i])
			begin = i
		}
	}
	return list
}

// ceiling is the top of the axis: above the largest value, and above a threshold that is near.
func ceiling(one *Panel, series []Series) float64 {
	largest := 0.0
	for _, s := range series {
		for _, p := range s.Points {
			largest = max(largest, p.Value)
		}
	}
	for _, v := range []float64{one.Warn, one.Bad} {
		if v != 0 && v < 2*largest {
			largest = max(largest, v)
		}
	}
	if largest == 0 {
		if largest = max(one.Warn, one.Bad); largest == 0 || one.Unit == "short" {
			largest = 1
		}
	}
	if one.Unit == "percentunit" && largest > 0.7 && largest <= 1 {
		return 1
	}
	step := niceStep(one.Unit, largest/horizontals)
	return step * math.Ceil(largest*1.001/step)
}

// niceStep is a round distance between the lines of an axis: of bytes the next power of two.
func niceStep(unit string, least float64) float64 {
	if unit == "bytes" {
		return math.Exp2(math.Ceil(math.Log2(least)))
	}
	return svg.NiceStep(least)
}

// times are those of the axis, on whole minutes where it is long enough.
func times(from, to time.Time) []time.Time {
	span := to.Sub(from)
	for _, step := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		if span/step > verticals+1 {
			continue
		}
		var list []time.Time
		for at := from.Truncate(step).Add(step); at.Before(to); at = at.Add(step) {
			list = append(list, at)
		}
		return list
	}
	return nil
}

// entry is a name in the legend; a colour below 0 is none.
type entry struct {
	text   string
	colour int
}

func (e entry) width() float64 { return float64(len([]rune(e.text)))*letter + 12 }

// legend puts the names into lines; those for which there is no room are counted.
func legend(series []Series, width float64) [][]entry {
	lines := [][]entry{{}}
	used := 0.0
	for i, s := range series {
		next := entry{s.Name, colour(series, i)}
		room := width
		if len(lines) == legendLines && i < len(series)-1 {
			room -= 60 // for "+ 12 more"
		}
		need := next.width() + 17
		if used+need > room && used > 0 {
			if len(lines) == legendLines {
				lines[len(lines)-1] = append(lines[len(lines)-1], entry{fmt.Sprintf("+ %d more", len(series)-i), -1})
				return lines
			}
			lines, used = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], next)
		used += need
	}
	return lines
}
