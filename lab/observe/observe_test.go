package observe

import (
	"context"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// rateInterval is what Grafana fills in for $__rate_interval: four scrapes.
	rateInterval = "4s"
	// dataWithin bounds the time until all panels have figures; a healthy system has them after some ten seconds.
	dataWithin = 40 * time.Second
)

// TestObserved runs the system under load, as an operator sees it: every panel has figures, and what the rules and the
// runbook name is there. That each alert fires where its cause is, and none elsewhere, promtool tests.
func TestObserved(t *testing.T) {
	needPrometheus(t)
	r := newRig(t)
	r.load = startLoad(t, r)
	began := time.Now()

	panels := r.fill(t, shipped(t))
	panelsHaveData(t, r, panels, began)
	selectorsFind(t, r, panels)
	r.load.stop()
	t.Logf("requests by the status of their answer: %v", r.load.by)
}

// fill returns the expressions of all panels by name, with values for the variables as Grafana fills in for "All":
// those that the variable's own query finds.
func (r *rig) fill(t *testing.T, all []dashboard) map[string]string {
	t.Helper()
	panels := map[string]string{}
	for _, d := range all {
		values := map[string]string{}
		substitute := func(text string) string {
			text = strings.NewReplacer("$__rate_interval", rateInterval, "$__interval", interval.String(),
				"$__range", dataWithin.String()).Replace(text)
			return aVariable.ReplaceAllStringFunc(text, func(name string) string { return values[strings.TrimLeft(name, "${")] })
		}
		for _, v := range d.Templating.List {
			if v.Name == "datasource" {
				continue
			}
			parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition)
			if parts == nil {
				t.Fatalf("%s: the variable %s asks %s", d.name, v.Name, v.Definition)
			}
			// When the pods are all there, all replicas have been scraped.
			want := map[string]int{"namespace": 1, "release": 1, "service": len(targets.Names()), "pod": perService}[v.Name]
			if s, err := targets.Named(d.name); err == nil && v.Name == "pod" {
				want *= len(s.Commands())
			}
			var found []string
			eventually(t, d.name+": values of $"+v.Name, dataWithin, func() bool {
				list, _, _, err := r.prom.LabelValues(t.Context(), parts[2], []string{substitute(parts[1])}, began(), time.Now())
				if err != nil {
					t.Error(err)
				}
				found = found[:0]
				for _, value := range list {
					found = append(found, regexp.QuoteMeta(string(value)))
				}
				return len(found) >= want
			})
			values[v.Name] = strings.Join(found, "|")
			if len(found) > 1 {
				values[v.Name] = "(" + values[v.Name] + ")"
			}
		}
		for where, expr := range d.queries() {
			panels[where] = substitute(expr)
		}
	}
	return panels
}

// began is before anything was scraped.
func began() time.Time { return time.Now().Add(-time.Hour) }

// vector evaluates an expression now.
func (r *rig) vector(t *testing.T, expr string, at time.Time) model.Vector {
	t.Helper()
	value, _, _, err := r.prom.Query(t.Context(), expr, at)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
	}
	vector, _ := value.(model.Vector)
	return vector
}

// hasData reports whether an expression had a figure since a time.
func (r *rig) hasData(ctx context.Context, expr string, since time.Time) (bool, error) {
	value, _, _, err := r.prom.QueryRange(ctx, expr, v1.Range{Start: since, End: time.Now(), Step: interval})
	matrix, _ := value.(model.Matrix)
	for _, series := range matrix {
		for _, point := range series.Values {
			if v := float64(point.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
				return true, err
			}
		}
	}
	return false, err
}

// panelsHaveData waits until every expression of every panel has figures.
func panelsHaveData(t *testing.T, r *rig, panels map[string]string, since time.Time) {
	t.Helper()
	open := maps.Clone(panels)
	deadline := time.Now().Add(dataWithin)
	for ticker := time.Tick(500 * time.Millisecond); len(open) > 0 && time.Now().Before(deadline); <-ticker {
		for where, expr := range open {
			number, err := r.hasData(t.Context(), expr, since)
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if number || err != nil {
				delete(open, where)
			}
		}
	}
	for where, expr := range open {
		t.Errorf("%s has no figure: %s", where, expr)
	}
	t.Logf("%d of %d expressions have figures after %s", len(panels)-len(open), len(panels),
		time.Since(since).Round(time.Second))
}

// aMetric matches the metrics in the runbook's text.
var aMetric = regexp.MustCompile(
	`\b(?:http_server|rowlock|` + strings.Join(targets.Names(), "|") + `)_[a-z_]+[a-z]\b[^"]`)

// selectorsFind demands of every selector in a dashboard or a rule that it, its metric and each of its matchers alone
// find series: a misspelt label finds nothing, and a != of it everything. So must the metrics that the runbook names.
// What only failures and the rules themselves leave behind is left out.
func selectorsFind(t *testing.T, r *rig, panels map[string]string) {
	t.Helper()
	exprs := maps.Clone(panels)
	for _, g := range chartRules(t).Groups {
		for _, one := range g.Rules {
			exprs["the rule "+one.Alert+one.Record] = one.Expr
		}
	}
	asked := map[string]string{}
	for _, name := range aMetric.FindAllString(read(t, runbookFile), -1) {
		asked[`{__name__=~"`+name[:len(name)-1]+`(_count)?"}`] = "the runbook"
	}
	for where, expr := range exprs {
		for _, s := range selectors(expr) {
			asked[s.String()], asked[selector{metric: s.metric}.String()] = where, where
			for _, m := range s.matchers {
				asked[selector{s.metric, []string{m}}.String()] = where
				if at := strings.IndexAny(m, "=!"); m[at] == '!' {
					asked[selector{s.metric, []string{m[:at] + `!=""`}}.String()] = where
				}
			}
		}
	}
	for one, where := range asked {
		ofFailures := strings.HasPrefix(one, "ALERTS") || strings.Contains(one, ":") || strings.Contains(one, "status=")
		if !ofFailures && len(r.vector(t, "count(last_over_time("+one+"[5m]))", time.Now())) == 0 {
			t.Errorf("%s: nothing is %s", where, one)
		}
	}
}
