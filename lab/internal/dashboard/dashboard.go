// Package dashboard writes the Grafana dashboards that the chart ships: an overview, and one for each service.
//
// A dashboard is a YAML file of rows with panels. shared.yaml holds what several dashboards have, under YAML anchors.
// grafana.json.tmpl writes them as Grafana's JSON, which is committed and needs nothing of this package.
//
// In an expression $of stands for the matchers of the chosen namespaces and releases, and $sel for these and the
// dashboard's own, so that none is forgotten. Everything else that begins with a dollar is Grafana's.
package dashboard

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed shared.yaml dashboards grafana.json.tmpl
var files embed.FS

// dashboard describes a dashboard of Grafana.
type dashboard struct {
	// Title and Text stand at its top.
	Title, Text string
	// Selector holds the matchers that its expressions need beside $of.
	Selector string
	// Variables are the choices of the reader, but for the data source, which every dashboard has. Query is Grafana's:
	// label_values(metric, label).
	Variables []struct{ Name, Label, Query string }
	// Rows are its parts from top to bottom.
	Rows []struct {
		Title  string
		Panels []panel
	}
}

// panel shows the results of queries.
type panel struct {
	// Title says what is shown, Text how to read it and what to do about it.
	Title, Text string
	// Kind is stat, heatmap, or timeseries when empty.
	Kind string
	// Unit is Grafana's name of the unit: reqps, ops, s, percentunit, short, bytes.
	Unit string
	// Queries find the series. Legend names them, with {{label}} for a label's value.
	Queries []struct{ Legend, Expr string }
	// Warn and Bad are the values from which it is yellow and red; 0 for none.
	Warn, Bad float64
	// Stack puts the series on top of each other, where only their sum has a meaning.
	Stack bool
	// Exemplars shows a trace of single requests beside the lines, where Prometheus stores exemplars.
	Exemplars bool
	// ByService says that the series are services: a click leads to the dashboard of one.
	ByService bool `yaml:"byService"`

	// ID, and the place on the page, follow from the order of the panels.
	ID, X, Y, W, H int `yaml:"-"`
}

// Write writes all dashboards into the folder.
func Write(folder string) error {
	// One document, because an anchor does not reach into another one.
	var text bytes.Buffer
	parts, err := fs.Glob(files, "dashboards/*.yaml")
	for _, name := range append([]string{"shared.yaml"}, parts...) {
		part, readErr := files.ReadFile(name)
		err = errors.Join(err, readErr)
		text.Write(part)
	}
	if err != nil {
		return fmt.Errorf("dashboards: %w", err)
	}

	var all struct {
		Shared     any
		Dashboards map[string]dashboard `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(&text)
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		return fmt.Errorf("dashboards: %w", err)
	}

	for name, d := range all.Dashboards {
		text, err := d.json(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".json"), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", name, err)
		}
	}
	return nil
}

// ofRelease are the matchers of the two variables that every dashboard has.
const ofRelease = `namespace=~"$namespace",app_kubernetes_io_instance=~"$release"`

// json returns the dashboard as Grafana imports it, with sorted keys.
func (d dashboard) json(name string) ([]byte, error) {
	encode := func(v any) (string, error) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err := encoder.Encode(v)
		return out.String(), err
	}
	matchers := strings.NewReplacer("$of", ofRelease, "$sel", ofRelease+","+d.Selector)
	page, err := template.New("grafana.json.tmpl").Delims("[[", "]]").Funcs(template.FuncMap{
		"json":   encode,
		"expr":   func(expr string) (string, error) { return encode(matchers.Replace(expr)) },
		"letter": func(i int) string { return string(rune('A' + i)) },
	}).ParseFS(files, "grafana.json.tmpl")
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	err = page.Execute(&text, struct {
		dashboard

		Name   string
		Panels []panel
	}{d, name, d.panels()})
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(text.Bytes(), &document); err != nil {
		return nil, err
	}
	sorted, err := encode(document)
	return []byte(sorted), err
}

// panels lays the panels out from left to right, row by row: six figures beside each other, or three panels with lines,
// or four where a row has four. A heatmap is as wide as two of three.
func (d dashboard) panels() (all []panel) {
	const columns = 24
	top := 0
	for _, row := range d.Rows {
		all = append(all, panel{Kind: "row", Title: row.Title, ID: len(all) + 1, Y: top, W: columns, H: 1})
		top++

		left, width, height := 0, columns/3, 8
		switch {
		case row.Panels[0].Kind == "stat":
			width, height = columns/6, 4
		case len(row.Panels) == 4:
			width = columns / 4
		}
		for _, p := range row.Panels {
			p.Kind, p.W, p.H = cmp.Or(p.Kind, "timeseries"), width, height
			if p.Kind == "heatmap" {
				p.W = 2 * width
			}
			if left+p.W > columns {
				left, top = 0, top+height
			}
			p.ID, p.X, p.Y = len(all)+1, left, top
			all = append(all, p)
			left += p.W
		}
		top += height
	}
	return all
}
