package prove

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/plot"
)

//go:embed page.html
var pageText string

// WritePage writes the report as one HTML page that needs nothing else.
func (r *Report) WritePage(out io.Writer) error {
	tmpl := template.Must(template.New("page").Funcs(template.FuncMap{
		"seconds": func(d time.Duration) string { return round(d).String() },
		"picture": func(path string) string {
			text, err := os.ReadFile(path)
			if err != nil {
				return err.Error()
			}
			return string(text)
		},
	}).Parse(pageText))
	if err := tmpl.Execute(out, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Services returns the names of the services in the order of their first window.
func (r *Report) Services() []string {
	var names []string
	for _, w := range r.Windows {
		for _, s := range w.Services {
			if !slices.Contains(names, s.Service) {
				names = append(names, s.Service)
			}
		}
	}
	return names
}

// Of returns what the window found of a service; nil where it took no part.
func (w *WindowResult) Of(name string) *ServiceResult {
	i := slices.IndexFunc(w.Services, func(s ServiceResult) bool { return s.Service == name })
	if i < 0 {
		return nil
	}
	return &w.Services[i]
}

// Chart draws a service's answers and their times over the whole run.
func (r *Report) Chart(service string) (template.HTML, error) {
	var ok, other, p99 plot.Line
	bands := make([]plot.Band, 0, len(r.Windows))
	add := func(at, okay, others, seconds float64) {
		ok.Points = append(ok.Points, plot.Point{X: at, Y: okay})
		other.Points = append(other.Points, plot.Point{X: at, Y: others})
		p99.Points = append(p99.Points, plot.Point{X: at, Y: seconds})
	}
	for i, w := range r.Windows {
		band := plot.Band{Name: w.Name, From: w.From.Seconds(), To: w.To.Seconds()}
		s := w.Of(service)
		if s == nil {
			add(band.From, 0, 0, 0)
			add(band.To, 0, 0, 0)
		} else {
			for _, second := range s.Seconds {
				add(float64(second.At), float64(second.OK), float64(second.Other), second.P99.Seconds())
			}
		}
		if i%2 == 1 {
			band.To = band.From // every other band is shaded
		}
		bands = append(bands, band)
	}
	figure := plot.Figure{Width: 1100, Height: 150, Charts: []plot.Chart{
		{Label: "answers/s", Lines: []plot.Line{other, ok}, Bands: bands},
		{Label: "seconds", Lines: []plot.Line{p99}, Bands: bands},
	}}
	var svg strings.Builder
	if err := figure.WriteSVG(&svg); err != nil {
		return "", fmt.Errorf("the chart of %s: %w", service, err)
	}
	return template.HTML(svg.String()), nil //nolint:gosec // numbers and names of ours
}
