package observe

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is a dashboard as it is committed.
type page struct {
	file string

	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	SchemaVersion int      `json:"schemaVersion"`
	Panels        []panel  `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
	Links []struct {
		Type string   `json:"type"`
		URL  string   `json:"url"`
		Tags []string `json:"tags"`
	} `json:"links"`
}

type variable struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Query json.RawMessage `json:"query"`
}

// text is the query of a variable of the type query.
func (v variable) text(t *testing.T) string {
	t.Helper()
	var query struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(v.Query, &query); err != nil {
		t.Errorf("variable %s: %v", v.Name, err)
	}
	return query.Query
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     box    `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit   string `json:"unit"`
			Custom struct {
				Stacking struct {
					Mode string `json:"mode"`
				} `json:"stacking"`
			} `json:"custom"`
			Thresholds struct {
				Steps []struct {
					Color string   `json:"color"`
					Value *float64 `json:"value"`
				} `json:"steps"`
			} `json:"thresholds"`
			Links []struct {
				URL string `json:"url"`
			} `json:"links"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type box struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

func (b box) overlaps(o box) bool {
	return b.X < o.X+o.W && o.X < b.X+b.W && b.Y < o.Y+o.H && o.Y < b.Y+b.H
}

// pages reads the dashboards that the chart ships.
func pages(t *testing.T) []*page {
	t.Helper()
	files, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(files) != len(names())+1 {
		t.Fatalf("%d dashboards (%v), want an overview and one for each service", len(files), err)
	}
	list := make([]*page, 0, len(files))
	for _, file := range files {
		p := &page{file: filepath.Base(file)}
		if err := json.Unmarshal([]byte(read(t, file)), p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, p)
	}
	return list
}

// aVariable finds $name, ${name} and ${name:format}.
var aVariable = regexp.MustCompile(`\$\{?(\w+)`)

// ofGrafana are the variables that Grafana brings.
func ofGrafana(name string) bool { return strings.HasPrefix(name, "__") }

// TestDashboardsAreWellFormed looks at what Grafana would accept and show wrongly, or not at all.
func TestDashboardsAreWellFormed(t *testing.T) {
	t.Parallel()
	uids := map[string]string{}
	for _, p := range pages(t) {
		if want := "rowlock-" + strings.TrimSuffix(p.file, ".json"); p.UID != want || uids[p.UID] != "" {
			t.Errorf("%s has the uid %q, want %q", p.file, p.UID, want)
		}
		uids[p.UID] = p.file
		if p.Title == "" || p.Description == "" || p.SchemaVersion < 39 || !slices.Equal(p.Tags, []string{"rowlock"}) {
			t.Errorf("%s: title %q, description %q, schema %d, tags %v", p.file, p.Title, p.Description, p.SchemaVersion, p.Tags)
		}
		known := map[string]bool{}
		for _, v := range p.Templating.List {
			known[v.Name] = true
		}
		if !known["datasource"] || !known["namespace"] || !known["release"] {
			t.Errorf("%s cannot choose its data source, namespace and release: %v", p.file, known)
		}
		text := read(t, chart+"/dashboards/"+p.file)
		if len(text) > 1<<20-64<<10 {
			t.Errorf("%s has %d bytes: too many for a ConfigMap", p.file, len(text))
		}
		for _, match := range aVariable.FindAllStringSubmatch(text, -1) {
			if !known[match[1]] && !ofGrafana(match[1]) {
				t.Errorf("%s uses $%s, which it does not define", p.file, match[1])
			}
		}
		for name := range known {
			if !strings.Contains(text, "$"+name) && !strings.Contains(text, "${"+name) {
				t.Errorf("%s defines $%s and does not use it", p.file, name)
			}
		}
		linked := slices.ContainsFunc(p.Links, func(l struct {
			Type string   `json:"type"`
			URL  string   `json:"url"`
			Tags []string `json:"tags"`
		},
		) bool {
			return l.Type == "dashboards" && slices.Equal(l.Tags, p.Tags)
		})
		if !linked {
			t.Errorf("%s does not link to the others", p.file)
		}
		checkPanels(t, p)
	}
	for _, name := range names() { // where the overview's links lead
		if uids["rowlock-"+name] == "" {
			t.Errorf("there is no dashboard rowlock-%s", name)
		}
	}
}

func checkPanels(t *testing.T, p *page) {
	t.Helper()
	ids, titles := map[int]bool{}, map[string]bool{}
	row := ""
	for i, one := range p.Panels {
		where := p.file + ": " + one.Title
		if one.ID < 1 || ids[one.ID] {
			t.Errorf("%s: id %d", where, one.ID)
		}
		ids[one.ID] = true
		if b := one.GridPos; b.X < 0 || b.W < 1 || b.X+b.W > 24 || b.H < 1 {
			t.Errorf("%s: it is at %+v, outside of the grid", where, b)
		}
		for _, other := range p.Panels[:i] {
			if one.GridPos.overlaps(other.GridPos) {
				t.Errorf("%s overlaps %s", where, other.Title)
			}
		}
		if one.Type == "row" {
			row = one.Title
			continue
		}
		if one.Title == "" || titles[row+one.Title] {
			t.Errorf("%s: the title is missing, or twice in a row", where)
		}
		titles[row+one.Title] = true
		if len(one.Description) < 20 || !strings.HasSuffix(one.Description, ".") {
			t.Errorf("%s: the description %q says nothing", where, one.Description)
		}
		if one.FieldConfig.Defaults.Unit == "" || len(one.FieldConfig.Defaults.Thresholds.Steps) == 0 {
			t.Errorf("%s: no unit, or no thresholds", where)
		}
		last := 0.0
		for _, step := range one.FieldConfig.Defaults.Thresholds.Steps[1:] {
			if step.Value == nil || *step.Value <= last {
				t.Errorf("%s: thresholds do not rise", where)
				break
			}
			last = *step.Value
		}
		if len(one.Targets) == 0 {
			t.Errorf("%s: nothing is asked", where)
		}
		for _, target := range one.Targets {
			if target.Expr == "" || target.LegendFormat == "" || strings.Contains(target.Expr, "$sel") {
				t.Errorf("%s: expression %q, legend %q", where, target.Expr, target.LegendFormat)
			}
			checkExpr(t, where, target.Expr)
		}
	}
}

// checkExpr demands that every metric is of the chosen namespace and release, but the alerts; and that rates ask for the interval that
// Grafana fits to the scrapes.
func checkExpr(t *testing.T, where, expr string) {
	t.Helper()
	for _, s := range selectors(expr) {
		chosen := strings.Contains(s.String(), `namespace=~"$namespace"`) && strings.Contains(s.String(), "$release")
		if s.metric != "ALERTS" && !chosen {
			t.Errorf("%s: %s is of all namespaces or releases", where, s)
		}
	}
	for _, part := range regexp.MustCompile(`\w+\([^()]*\[([^]]+)\]`).FindAllStringSubmatch(expr, -1) {
		if !slices.Contains([]string{"$__rate_interval", "15m", "1h"}, part[1]) {
			t.Errorf("%s: a range of %s", where, part[1])
		}
	}
}
