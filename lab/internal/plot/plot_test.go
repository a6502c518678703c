package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestWriteSVG(t *testing.T) {
	t.Parallel()

	figure := Figure{Width: 600, Height: 180, Charts: []Chart{
		{
			Label: "requests & <answers>",
			Lines: []Line{
				{Name: "counts", Points: []Point{{X: 0, Y: 10}, {X: 10, Y: 20}, {X: 30, Y: 15}}},
				{Name: "iidy", Points: []Point{{X: 0, Y: 5}, {X: 10, Y: 50}, {X: 30, Y: 40}}},
			},
			Bands: []Band{{Name: "kill", From: 5, To: 12}},
		},
		{Label: "no data", Lines: []Line{{Name: "nothing"}}, Bands: []Band{{Name: "pause", From: 1, To: 2}}},
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
		">requests &amp; &lt;answers&gt;<", ">counts<", ">iidy<", ">kill<", ">no data<", ">nothing<", ">pause<",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}

	if !strings.HasPrefix(text, "<svg") || strings.Contains(text, "NaN") {
		t.Errorf("the picture begins with %.40q or holds NaN", text)
	}
}
