package observe

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/draw"
)

// pictureStep is between two points of the picture.
const pictureStep = 2 * time.Second

// drawOverview renders the overview between two times, of the same answers that Grafana would draw: into the folder of the flag, or
// to .tmp, where somebody may look at it.
func drawOverview(t *testing.T, r *rig, all []*page, from, to time.Time) {
	t.Helper()
	folder := *pictures
	if folder == "" {
		folder = filepath.Join("..", "..", ".tmp", "observe")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		if p.UID != "rowlock-overview" {
			continue
		}
		var out bytes.Buffer
		if err := r.picture(t, p, from, to).WriteSVG(&out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the picture is no XML: %v", err)
			}
		}
		for _, one := range p.Panels {
			if !strings.Contains(text, ">"+one.Title+"<") {
				t.Errorf("the picture lacks %s", one.Title)
			}
		}
		if strings.Contains(text, "no data") || strings.Contains(text, "NaN") {
			t.Error("a panel of the picture has no data")
		}
		if err := os.WriteFile(filepath.Join(folder, "overview.svg"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The picture of the README is of the overview as it is, and the README says what was done meanwhile.
func TestPictureIsOfTheOverview(t *testing.T) {
	t.Parallel()
	picture := read(t, "../../docs/img/overview.svg")
	for _, p := range pages(t) {
		if p.UID != "rowlock-overview" {
			continue
		}
		for _, one := range p.Panels {
			if !strings.Contains(picture, ">"+one.Title+"<") {
				t.Errorf("docs/img/overview.svg lacks the panel %s: run make pictures", one.Title)
			}
		}
	}
	n := 0
	for _, list := range faults() {
		n += len(list)
	}
	word := map[int]string{8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}[n]
	if word == "" || !strings.Contains(read(t, "../../README.md"), "broken in "+word+" ways") {
		t.Errorf("the README does not say that the system is broken in %d ways", n)
	}
}

func (r *rig) picture(t *testing.T, p *page, from, to time.Time) *draw.Page {
	t.Helper()
	picture := &draw.Page{
		Title: p.Title, From: from, To: to,
		Caption: "Drawn by `make pictures` from a Prometheus that scraped two replicas of every service under load, and while they were " +
			"broken on " +
			"purpose. Grafana draws the same panels in its own way.",
	}
	for _, one := range p.Panels {
		panel := draw.Panel{
			Kind: one.Type, Title: one.Title, Unit: one.FieldConfig.Defaults.Unit,
			X: one.GridPos.X, Y: one.GridPos.Y, Width: one.GridPos.W, Height: one.GridPos.H,
			Stack: one.FieldConfig.Defaults.Custom.Stacking.Mode == "normal",
		}
		for _, step := range one.FieldConfig.Defaults.Thresholds.Steps {
			switch {
			case step.Value == nil:
			case step.Color == "yellow":
				panel.Warn = *step.Value
			default:
				panel.Bad = *step.Value
			}
		}
		for _, target := range one.Targets {
			list, err := r.prom.QueryRange(t.Context(), target.Expr, from, to, pictureStep)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range list {
				series := draw.Series{Name: legend(target.LegendFormat, found.Labels)}
				for _, point := range found.Points {
					series.Points = append(series.Points, draw.Point{Time: point.Time, Value: point.Value})
				}
				panel.Series = append(panel.Series, series)
			}
		}
		picture.Panels = append(picture.Panels, panel)
	}
	return picture
}

var ofLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)

// legend fills the labels in, as Grafana does.
func legend(format string, labels map[string]string) string {
	return ofLegend.ReplaceAllStringFunc(format, func(name string) string {
		return labels[strings.Trim(name, "{}")]
	})
}
