package observe

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rowlock/rowlock/lab/internal/prometheus"
)

const (
	// rateInterval is what Grafana puts for $__rate_interval: four scrapes.
	rateInterval = "4s"
	// dataWithin is how long panels may take until they all have figures; a healthy system has them after some ten seconds.
	dataWithin = 40 * time.Second
	// recovery is what the picture shows of the time after the last fault.
	recovery = 30 * time.Second
)

// TestObserved is the story of an operator: all is well and every dashboard shows it; then things break, and the alerts say so.
//
//nolint:paralleltest // it wants the machine for itself: alerts must not fire because others compile
func TestObserved(t *testing.T) {
	needPrometheus(t)
	rules := impatient(t)
	r := newRig(t, rules)
	ctx := t.Context()
	r.load = startLoad(t, r)
	began := time.Now()

	all := pages(t)
	r.fill(t, all)
	panelsHaveData(t, r, all, began)
	matchersFind(t, r, all)
	time.Sleep(max(0, *healthy-time.Since(began)))
	quiet(t, r)
	well := time.Since(began)

	breakThings(t, r)
	if *pictures != "" {
		time.Sleep(recovery)
	}
	ended := time.Now()
	r.load.stop()
	panelsMove(t, r, all, began, ended)
	drawOverview(t, r, all, began, ended)

	series, err := r.prom.Query(ctx, `count({job=~".+"})`, ended)
	if err != nil || len(series) != 1 {
		t.Fatalf("%v %v", series, err)
	}
	t.Logf("%g series; %d requests, answered %v; well for %s of %s",
		series[0].Value, r.load.sent.Load(), r.load.by, well.Round(time.Second), ended.Sub(began).Round(time.Second))
}

// impatient copies the rules with every `for` cut to one second, so that an alert fires when its expression has held for two
// evaluations. The expressions stay as they are.
func impatient(t *testing.T) []string {
	t.Helper()
	var doc struct {
		Groups []map[string]any `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, chart+"/rules/rowlock.yaml")), &doc); err != nil {
		t.Fatal(err)
	}
	for _, group := range doc.Groups {
		delete(group, "interval")
		rules, _ := group["rules"].([]any)
		for _, rule := range rules {
			if one, ok := rule.(map[string]any); ok && one["alert"] != nil {
				one["for"] = "1s"
				delete(one, "keep_firing_for")
			}
		}
	}
	file := t.TempDir() + "/rules.yaml"
	text, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, text)
	return []string{file}
}

// fill puts values for the variables of the dashboards, as Grafana does for "All": what the variable's own query finds.
func (r *rig) fill(t *testing.T, all []*page) {
	t.Helper()
	for _, p := range all {
		values := map[string]string{}
		substitute := func(text string) string {
			text = strings.NewReplacer("$__rate_interval", rateInterval, "$__interval", interval.String()).Replace(text)
			return aVariable.ReplaceAllStringFunc(text, func(name string) string { return values[strings.TrimLeft(name, "${")] })
		}
		for _, v := range p.Templating.List {
			if v.Type != "query" {
				continue
			}
			parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.text(t))
			if parts == nil {
				t.Fatalf("%s: the variable %s asks %s", p.file, v.Name, v.Query)
			}
			var found []string
			eventually(t, p.file+": values of $"+v.Name, dataWithin, func() bool {
				var err error
				found, err = r.prom.LabelValues(t.Context(), parts[2], substitute(parts[1]))
				if err != nil {
					t.Error(err)
				}
				// When the pods are all there, all replicas have been scraped.
				want := map[string]int{"namespace": 1, "service": len(names()), "pod": perService}[v.Name]
				if p.UID == "rowlock-events" && v.Name == "pod" {
					want = 2 * perService
				}
				return len(found) >= want
			})
			for i := range found {
				found[i] = regexp.QuoteMeta(found[i])
			}
			values[v.Name] = strings.Join(found, "|")
			if len(found) > 1 {
				values[v.Name] = "(" + values[v.Name] + ")"
			}
		}
		for i := range p.Panels {
			for j := range p.Panels[i].Targets {
				target := &p.Panels[i].Targets[j]
				target.Expr = substitute(target.Expr)
			}
		}
	}
}

// everyTarget calls do for each expression of each dashboard.
func everyTarget(all []*page, do func(where, expr string)) {
	for _, p := range all {
		row := ""
		for _, one := range p.Panels {
			if one.Type == "row" {
				row = one.Title
			}
			for _, target := range one.Targets {
				do(fmt.Sprintf("%s: %s: %s (%s)", p.file, row, one.Title, target.RefID), target.Expr)
			}
		}
	}
}

// hasData tells whether an expression had a figure that is a number between two times, and whether one was not zero.
func (r *rig) hasData(ctx context.Context, expr string, since, until time.Time) (number, moved bool, err error) {
	list, err := r.prom.QueryRange(ctx, expr, since, until, interval)
	for _, series := range list {
		for _, point := range series.Points {
			if !math.IsNaN(point.Value) && !math.IsInf(point.Value, 0) {
				number = true
				moved = moved || point.Value != 0
			}
		}
	}
	return number, moved, err
}

// panelsHaveData waits until every expression of every panel has figures.
func panelsHaveData(t *testing.T, r *rig, all []*page, since time.Time) {
	t.Helper()
	open, total := map[string]string{}, 0
	everyTarget(all, func(where, expr string) { open[where], total = expr, total+1 })
	if len(open) != total {
		t.Fatalf("%d expressions, %d of them with a name of their own", total, len(open))
	}
	deadline := time.Now().Add(dataWithin)
	for len(open) > 0 && time.Now().Before(deadline) {
		for where, expr := range open {
			number, _, err := r.hasData(t.Context(), expr, since, time.Now())
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if number || err != nil {
				delete(open, where)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	for where, expr := range open {
		t.Errorf("%s shows nothing: %s", where, expr)
	}
	t.Logf("%d expressions of %d dashboards have figures after %s", total-len(open), len(all), time.Since(since).Round(time.Second))
}

// matchersFind demands of every selector in a dashboard or an alert that each of its matchers alone finds series, and of every selector
// that it does as a whole: a label that is misspelt finds nothing, and a != of it everything.
func matchersFind(t *testing.T, r *rig, all []*page) {
	t.Helper()
	asked := map[string]string{}
	ask := func(where, expr string) {
		for _, s := range selectors(expr) {
			if s.metric == "ALERTS" { // there is none while all is well
				continue
			}
			asked[selector{metric: s.metric}.String()] = where
			for _, m := range s.matchers {
				asked[selector{metric: s.metric, matchers: []string{m}}.String()] = where
				if at := strings.IndexAny(m, "=!"); m[at] == '!' {
					asked[selector{metric: s.metric, matchers: []string{m[:at] + `!=""`}}.String()] = where
				}
			}
		}
	}
	everyTarget(all, ask)
	for name, expr := range alertExprs(t) {
		ask("the alert "+name, expr)
	}
	for one, where := range asked {
		// What is asked of a status may not have been answered yet.
		if regexp.MustCompile(`^http_server_request_duration_seconds_\w+\{status`).MatchString(one) {
			continue
		}
		list, err := r.prom.Query(t.Context(), "count("+one+")", time.Now())
		if err != nil || len(list) == 0 {
			t.Errorf("%s: nothing is %s (%v)", where, one, err)
		}
	}
	t.Logf("%d metrics and matchers find series", len(asked))
}

// alertExprs are the expressions of the alerts by name; a name may be there several times.
func alertExprs(t *testing.T) map[string]string {
	t.Helper()
	var doc struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
				Expr  string `yaml:"expr"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, chart+"/rules/rowlock.yaml")), &doc); err != nil {
		t.Fatal(err)
	}
	exprs := map[string]string{}
	for _, group := range doc.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				exprs[rule.Alert] += rule.Expr + "\n"
			}
		}
	}
	return exprs
}

// quiet demands that all alerts were evaluated without an error, and that none fires.
func quiet(t *testing.T, r *rig) {
	t.Helper()
	alerts := r.alerts(t)
	if len(alerts) == 0 {
		t.Fatal("there is no alert")
	}
	for _, a := range alerts {
		if a.Health != "ok" || a.State == "firing" {
			t.Errorf("all is well, and %s is %s (%s %s): %v", a.Name, a.State, a.Health, a.LastError, a.Alerts)
		}
	}
	t.Logf("%d alerting rules, none firing", len(alerts))
}

func (r *rig) alerts(t *testing.T) []prometheus.Alert {
	t.Helper()
	alerts, err := r.prom.Alerts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return alerts
}
