package observe

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// dashboard is what the tests read of a dashboard's JSON.
type dashboard struct {
	UID         string `json:"uid"`
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

// Each service has a dashboard of its name, where the links of the overview lead.
func TestEveryServiceHasADashboard(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range shipped(t) {
		got = append(got, d.UID)
	}
	want := []string{"rowlock-overview"}
	for _, name := range targets.Names() {
		want = append(want, "rowlock-"+name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the dashboards are %v, want %v", got, want)
	}
}

// Grafana accepts a variable that is not defined, and shows nothing.
func TestDashboardsDefineTheirVariables(t *testing.T) {
	t.Parallel()
	for _, d := range shipped(t) {
		known := map[string]bool{}
		for _, v := range d.Templating.List {
			known[v.Name] = true
		}
		for _, match := range aVariable.FindAllStringSubmatch(d.text, -1) {
			if !known[match[1]] && !strings.HasPrefix(match[1], "__") { // those are Grafana's
				t.Errorf("%s uses $%s, which it does not define", d.name, match[1])
			}
		}
	}
}

// Every panel says how to read it.
func TestPanelsAreDescribed(t *testing.T) {
	t.Parallel()
	for _, d := range shipped(t) {
		for _, p := range d.Panels {
			if p.Type != "row" && !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s: %s is described as %q", d.name, p.Title, p.Description)
			}
		}
	}
}

// Every metric is of the chosen namespaces and releases, and every rate asks for the interval that Grafana fits to the
// scrapes.
func TestPanelsAskForWhatIsChosen(t *testing.T) {
	t.Parallel()
	ranges := regexp.MustCompile(`\w+\([^()]*\[([^]]+)\]`)
	for _, d := range shipped(t) {
		exprs := d.queries()
		for _, a := range d.Annotations.List {
			exprs[d.name+": annotation"] = a.Expr
		}
		for where, expr := range exprs {
			for _, s := range selectors(expr) {
				if text := s.String(); !strings.Contains(text, `namespace=~"$namespace"`) || !strings.Contains(text, "$release") {
					t.Errorf("%s: %s is of all namespaces or releases", where, text)
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
