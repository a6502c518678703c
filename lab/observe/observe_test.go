package observe

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/rowlock/rowlock/lab/internal/prometheus"
)

const (
	// rateInterval is what Grafana puts for $__rate_interval: four scrapes.
	rateInterval = "4s"
	// dataWithin is how long panels may take until they all have figures; a healthy system has them after some ten seconds.
	dataWithin = 40 * time.Second
)

// TestObserved is the story of an operator: all is well and every dashboard shows it; then things break, and the alerts say so.
//
//nolint:paralleltest // it wants the machine for itself: alerts must not fire because others compile
func TestObserved(t *testing.T) {
	needPrometheus(t)
	r := newRig(t, impatient(t))
	ctx := t.Context()
	r.load = startLoad(t, r)
	began := time.Now()

	all := pages(t)
	r.fill(t, all)
	panelsHaveData(t, r, all, began)
	matchersFind(t, r, all, false)
	time.Sleep(max(0, *healthy-time.Since(began)))
	quiet(t, r)
	well := time.Since(began)

	breakThings(t, r)
	time.Sleep(5 * *between)
	matchersFind(t, r, all, true)
	ended := time.Now()
	r.load.stop()
	drawOverview(t, r, all, began, ended)
	if *pictures == "" { // a long run, whose every second would be looked at 184 times
		panelsMove(t, r, all, began, ended)
	}

	series, err := r.prom.Query(ctx, `count({job=~".+"})`, ended)
	if err != nil || len(series) != 1 {
		t.Fatalf("%v %v", series, err)
	}
	t.Logf("%g series; %d requests, answered %v; well for %s of %s",
		series[0].Value, r.load.sent.Load(), r.load.by, well.Round(time.Second), ended.Sub(began).Round(time.Second))
}

// faster is how much faster time runs in the rules: five minutes are five seconds.
const faster = 60

// impatient copies the rules with all their ranges shortened, and every `for` cut to two seconds. What is compared with what stays as
// it is. Each rule is about this release alone, as the chart ships it.
func impatient(t *testing.T) []string {
	t.Helper()
	scope := ofRelease(t)
	var files []string
	for _, r := range rules(t) {
		for _, group := range r.Groups {
			for _, rule := range group.Rules {
				expr, isText := rule["expr"].(string)
				if !isText {
					t.Fatalf("%v has no expression", rule)
				}
				rule["expr"] = fmt.Sprintf("(%s)\n%s", aRange.ReplaceAllStringFunc(expr, func(text string) string {
					length, err := model.ParseDuration(strings.Trim(text, "[]"))
					if err != nil {
						t.Fatalf("%s: %v", expr, err)
					}
					return "[" + (length / faster).String() + "]"
				}), scope)
				if rule["alert"] != nil {
					rule["for"] = "2s"
					delete(rule, "keep_firing_for")
				}
			}
		}
		text, err := yaml.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// ofRelease is what the chart adds to each expression of a rule.
func ofRelease(t *testing.T) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, chart+"/templates/_helpers.tpl"), `{{- define "rowlock.ofRelease" -}}`)
	text, _, ended := strings.Cut(text, "{{- end -}}")
	text = strings.NewReplacer("{{ .Release.Namespace }}", namespace, "{{ .Release.Name }}", release).Replace(strings.TrimSpace(text))
	if !found || !ended || strings.Contains(text, "{{") {
		t.Fatalf("the chart adds %q to the rules", text)
	}
	return text
}

var aRange = regexp.MustCompile(`\[\w+\]`)

// ruleFile is one of the chart.
type ruleFile struct {
	Groups []struct {
		Name  string           `yaml:"name"`
		Rules []map[string]any `yaml:"rules"`
	} `yaml:"groups"`
}

func rules(t *testing.T) []ruleFile {
	t.Helper()
	paths, err := filepath.Glob(chart + "/rules/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("the chart has no rules: %v", err)
	}
	files := make([]ruleFile, len(paths))
	for i, path := range paths {
		if err := yaml.Unmarshal([]byte(read(t, path)), &files[i]); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return files
}

// ruleExprs are the expressions of the rules by name, those of alerts apart or all.
func ruleExprs(t *testing.T, kind string) map[string]string {
	t.Helper()
	exprs := map[string]string{}
	for _, file := range rules(t) {
		for _, group := range file.Groups {
			for _, rule := range group.Rules {
				if name, is := rule[kind].(string); is {
					exprs[name] += fmt.Sprint(rule["expr"], "\n")
				}
			}
		}
	}
	return exprs
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
				want := map[string]int{"namespace": 1, "release": 1, "service": len(names()), "pod": perService}[v.Name]
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

// matchersFind demands of every selector in a dashboard or a rule that its metric and each of its matchers alone find series: a label
// that is misspelt finds nothing, and a != of it everything. What only failures leave behind is asked for when there have been some.
func matchersFind(t *testing.T, r *rig, all []*page, failed bool) {
	t.Helper()
	asked := map[string]string{}
	ask := func(where, expr string) {
		for _, s := range selectors(expr) {
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
	for _, kind := range []string{"alert", "record"} {
		for name, expr := range ruleExprs(t, kind) {
			ask("the rule "+name, expr)
		}
	}
	found := 0
	for one, where := range asked {
		if ofFailures(one) != failed {
			continue
		}
		found++
		list, err := r.prom.Query(t.Context(), "count(last_over_time("+one+"[5m]))", time.Now())
		if err != nil || len(list) == 0 {
			t.Errorf("%s: nothing is %s (%v)", where, one, err)
		}
	}
	t.Logf("%d metrics and matchers find series", found)
}

// ofFailures tells what there is only when something has failed.
func ofFailures(text string) bool {
	return strings.HasPrefix(text, "ALERTS") || strings.Contains(text, ":") || strings.Contains(text, "{status")
}

// quiet demands that all alerts were evaluated without an error, and that none fires.
func quiet(t *testing.T, r *rig) {
	t.Helper()
	alerts := r.alerts(t)
	if len(alerts) == 0 {
		t.Fatal("there is no alert")
	}
	for _, a := range alerts {
		switch {
		case a.Health == "ok" && a.State != "firing":
		case a.Health == "ok" && strings.HasSuffix(a.Name, "Slow"):
			t.Logf("all is well, and %s: this machine is busy with other things", a.Name)
		default:
			t.Errorf("all is well, and %s is %s (%s %s): %v", a.Name, a.State, a.Health, a.LastError, a.Alerts)
		}
	}
	t.Logf("%d alerting rules, and all is quiet", len(alerts))
}

func (r *rig) alerts(t *testing.T) []prometheus.Alert {
	t.Helper()
	alerts, err := r.prom.Alerts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return alerts
}
