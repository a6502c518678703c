package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestWriteSVG(t *testing.T) {
	t.Parallel()

	seconds := func(v float64) string { return time.Duration(v * float64(time.Second)).String() }
	figure := Figure{Columns: 2, Width: 600, Height: 180, Charts: []Chart{
		{
			Title: "requests & <answers>", Y: Axis{Label: "per second"}, X: Axis{Format: seconds},
			Lines: []Line{
				{Name: "counts", Points: []Point{{0, 10}, {10, 20}, {20, math.NaN()}, {30, 15}}},
				{Name: "iidy", Points: []Point{{0, 5}, {10, 50}, {30, 40}}},
			},
			Bands: []Band{{Name: "kill", From: 5, To: 12}},
		},
		{
			Title: "latency", LogY: true, Y: Axis{Format: seconds}, Limits: []float64{0.2},
			Lines: []Line{{Name: "p99", Points: []Point{{0, 0.001}, {1, 0.1}, {2, 0}}}},
		},
		{Title: "no data", LogY: true, Lines: []Line{{Name: "nothing"}}},
	}}

	var out strings.Builder
	if err := figure.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}

	text := out.String()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
	}

	for _, want := range []string{
		">requests &amp; &lt;answers&gt;<", ">counts<", ">iidy<", ">kill<", ">per second<", ">20s<", ">latency<", ">100ms<", ">no data<",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}

	if !strings.HasPrefix(text, "<svg") || strings.Contains(text, "NaN") {
		t.Errorf("the picture begins with %.40q or holds NaN", text)
	}
}
