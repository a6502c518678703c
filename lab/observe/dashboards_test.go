package observe

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests read of a dashboard's JSON.
type dashboard struct {
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Targets     []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`

	name, text string
}

// shipped returns the dashboards of the chart.
func shipped(t *testing.T) (all []dashboard) {
	t.Helper()
	files, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		d := dashboard{name: strings.TrimSuffix(filepath.Base(file), ".json"), text: read(t, file)}
		if err := json.Unmarshal([]byte(d.text), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// queries returns the expressions of a dashboard by the panels that show them.
func (d dashboard) queries() map[string]string {
	exprs, row := map[string]string{}, ""
	for _, p := range d.Panels {
		if p.Type == "row" {
			row = p.Title
		}
		for _, target := range p.Targets {
			exprs[d.name+": "+row+": "+p.Title+": "+target.RefID] = target.Expr
		}
	}
	return exprs
}

// aVariable matches $name, ${name} and ${name:format}.
var aVariable = regexp.MustCompile(`\$\{?(\w+)`)

// Every panel says how to read it, asks for the chosen namespaces and releases, and rates over the interval that
// Grafana fits to the scrapes. Every variable is defined: Grafana accepts one that is not, and shows nothing.
func TestDashboards(t *testing.T) {
	t.Parallel()
	ranges := regexp.MustCompile(`\w+\([^()]*\[([^]]+)\]`)
	for _, d := range shipped(t) {
		for _, p := range d.Panels {
			if p.Type != "row" && !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s: %s is described as %q", d.name, p.Title, p.Description)
			}
		}

		for _, match := range aVariable.FindAllStringSubmatch(d.text, -1) {
			defined := strings.Contains(d.text, `"name": "`+match[1]+`"`)
			if !defined && !strings.HasPrefix(match[1], "__") { // those are Grafana's
				t.Errorf("%s uses $%s, which it does not define", d.name, match[1])
			}
		}

		exprs := d.queries()
		for _, a := range d.Annotations.List {
			exprs[d.name+": annotation"] = a.Expr
		}
		for where, expr := range exprs {
			for _, at := range aMetric.FindAllStringIndex(expr, -1) {
				matchers, _, _ := strings.Cut(expr[at[1]:], "}")
				if !strings.HasPrefix(matchers, `{namespace=~"$namespace"`) || !strings.Contains(matchers, "$release") {
					t.Errorf("%s: %s is of all namespaces or releases", where, expr[at[0]:])
				}
			}
			for _, part := range ranges.FindAllStringSubmatch(expr, -1) {
				if !slices.Contains([]string{"$__rate_interval", "$__range", "15m", "1h"}, part[1]) {
					t.Errorf("%s: a range of %s", where, part[1])
				}
			}
		}
	}
}
