package observe

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/dashboard"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// aVariable matches $name, ${name} and ${name:format}.
var aVariable = regexp.MustCompile(`\$\{?(\w+)`)

// everyQuery calls do for each expression of the dashboards.
func everyQuery(all []*dashboard.Dashboard, do func(where, expr string)) {
	for _, d := range all {
		for _, row := range d.Rows {
			for _, panel := range row.Panels {
				for _, q := range panel.Queries {
					do(d.Name+": "+row.Title+": "+panel.Title+": "+q.Legend, d.Expr(q.Expr))
				}
			}
		}
	}
}

// There is an overview and a dashboard of each service, shipped as they are written, with what Grafana would accept and
// show wrongly, or not at all.
func TestDashboards(t *testing.T) {
	t.Parallel()
	all := dashboard.All()
	shipped, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(shipped) != len(all) || len(all) != 1+len(services.Names()) {
		t.Errorf("the chart ships %v (%v), written are %d dashboards of %d services", shipped, err, len(all),
			len(services.Names()))
	}
	for _, name := range services.Names() { // where the overview's links lead
		if !slices.ContainsFunc(all, func(d *dashboard.Dashboard) bool { return d.UID() == "rowlock-"+name }) {
			t.Errorf("there is no dashboard rowlock-%s", name)
		}
	}
	for _, d := range all {
		text, err := d.JSON()
		if err != nil || read(t, chart+"/dashboards/"+d.Name+".json") != string(text) {
			t.Errorf("%s is not shipped as it is written (%v): run make generate", d.Name, err)
		}
		if d.Title == "" || d.Description == "" || len(text) > 1<<20-64<<10 {
			t.Errorf("%s: title %q, description %q, %d bytes", d.Name, d.Title, d.Description, len(text))
		}
		known := map[string]bool{"datasource": true}
		for _, v := range d.Variables {
			known[v.Name] = true
			if !strings.Contains(string(text), "$"+v.Name) {
				t.Errorf("%s defines $%s and does not use it", d.Name, v.Name)
			}
		}
		if !known["namespace"] || !known["release"] {
			t.Errorf("%s cannot choose its namespace and release: %v", d.Name, known)
		}
		for _, match := range aVariable.FindAllStringSubmatch(string(text), -1) {
			if !known[match[1]] && !strings.HasPrefix(match[1], "__") { // those are Grafana's
				t.Errorf("%s uses $%s, which it does not define", d.Name, match[1])
			}
		}
		heatmaps, want := strings.Count(string(text), `"type": "heatmap"`), 1
		if d.Name == "overview" {
			want = 0
		}
		if heatmaps != want {
			t.Errorf("%s has %d heatmaps, want %d", d.Name, heatmaps, want)
		}
		for _, row := range d.Rows {
			titles := map[string]bool{}
			for _, p := range row.Panels {
				if p.Title == "" || titles[p.Title] || p.Unit == "" || len(p.Queries) == 0 ||
					p.Warn != 0 && p.Bad != 0 && p.Warn >= p.Bad {
					t.Errorf("%s: %s: %+v", d.Name, row.Title, p)
				}
				titles[p.Title] = true
				if p.Exemplars && !strings.Contains(p.Queries[0].Expr, "http_server_request_duration_seconds_bucket") {
					t.Errorf("%s: %s: only the durations of requests have exemplars", d.Name, p.Title)
				}
				if len(p.Description) < 20 || !strings.HasSuffix(p.Description, ".") {
					t.Errorf("%s: %s: the description %q says nothing", d.Name, p.Title, p.Description)
				}
			}
		}
	}
	everyQuery(all, func(where, expr string) { checkExpr(t, where, expr) })
	checkExpr(t, "the mark of alerts", dashboard.AlertsExpr)
}

// checkExpr demands that every metric is of the chosen namespace and release, and that rates ask for the
// interval that Grafana fits to the scrapes.
func checkExpr(t *testing.T, where, expr string) {
	t.Helper()
	for _, s := range selectors(expr) {
		chosen := strings.Contains(s.String(), `namespace=~"$namespace"`) && strings.Contains(s.String(), "$release")
		if !chosen {
			t.Errorf("%s: %s is of all namespaces or releases", where, s)
		}
	}
	for _, part := range regexp.MustCompile(`\w+\([^()]*\[([^]]+)\]`).FindAllStringSubmatch(expr, -1) {
		if !slices.Contains([]string{"$__rate_interval", "$__range", "15m", "1h"}, part[1]) {
			t.Errorf("%s: a range of %s", where, part[1])
		}
	}
}
