package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// at is a series with a value every ten seconds; NaN is what a quantile of nothing is.
func at(name string, from time.Time, values ...float64) Series {
	s := Series{Name: name}
	for i, v := range values {
		s.Points = append(s.Points, Point{Time: from.Add(time.Duration(i) * 10 * time.Second), Value: v})
	}
	return s
}

func TestPage(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	nan := math.NaN()
	p := &Page{
		Title: "A <title>", Caption: "A caption", From: from, To: from.Add(2 * time.Minute),
		Panels: []Panel{
			{Kind: "row", Title: "A row", Width: 24, Height: 1},
			{
				Kind: "stat", Title: "Failed", Unit: "percentunit", Y: 1, Width: 4, Height: 4, Warn: 0.001, Bad: 0.01,
				Series: []Series{at("5xx", from, 0, 0.02)},
			},
			{
				Kind: "timeseries", Title: "With a gap", Unit: "s", X: 4, Y: 1, Width: 8, Height: 8, Bad: 0.5,
				Series: []Series{at("b", from, 0.1, 0.3, nan, nan, nan, nan, 0.2, 0.4), at("a", from, 0.1, 0.1), at("none", from, nan)},
			},
			{
				Kind: "timeseries", Title: "Stacked", Unit: "reqps", X: 12, Y: 1, Width: 8, Height: 8, Stack: true,
				Series: []Series{at("one", from, 10, 20), at("two", from, 30, 40)},
			},
			{Kind: "timeseries", Title: "Nothing", Unit: "short", X: 20, Y: 1, Width: 4, Height: 8},
		},
	}
	var out strings.Builder
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"A &lt;title&gt;", "A caption", "A row",
		`class="v tb" text-anchor="middle">2 %<`, // the last value, and red
		`class="bad"`, ">600 ms<", ">22:01<",
		">60/s<", // the sum of what is stacked
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture has no %s", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, ">none<") {
		t.Error("the picture shows what is not there")
	}
	if n := strings.Count(text, "<polyline"); n != 5 { // b before and after its gap, a, one and two
		t.Errorf("%d lines, want 5", n)
	}
	if n := strings.Count(text, "<polygon"); n != 2 {
		t.Errorf("%d areas, want 2", n)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"s", 0, "0 s"},
		{"s", 0.00025, "250 µs"},
		{"s", 0.0042, "4.2 ms"},
		{"s", 12.34, "12.3 s"},
		{"percentunit", 0.0012, "0.12 %"},
		{"percentunit", 1, "100 %"},
		{"bytes", 64 << 20, "64 MiB"},
		{"reqps", 241.6, "242/s"},
		{"ops", 12345, "12.3 K/s"},
		{"short", 3, "3"},
	} {
		if got := format(tt.unit, tt.value); got != tt.want {
			t.Errorf("%g %s is %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

// TestLegend: what does not fit is counted, and a name has the same colour wherever the same names are.
func TestLegend(t *testing.T) {
	t.Parallel()
	var many []Series
	for c := 'a'; c <= 'z'; c++ {
		many = append(many, Series{Name: strings.Repeat(string(c), 12)})
	}
	lines := legend(many, 300)
	last := lines[len(lines)-1]
	if len(lines) != legendLines || !strings.HasPrefix(last[len(last)-1].text, "+ ") {
		t.Errorf("%d lines, which end with %+v", len(lines), last)
	}
	if colour(many, 3) != 3 || colour([]Series{many[3], many[0], many[1], many[2]}, 0) != 3 {
		t.Error("the colour goes by the order in the list")
	}
}
