package observe

import (
	"context"
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
	startLoad(t, r)
	began := time.Now()

	all := shipped(t)
	panelsHaveData(t, r, all, began)
	variablesHaveValues(t, r, all)
	metricsExist(t, r)
}

// chosen are the values of the dashboards' variables.
var chosen = strings.NewReplacer("$__rate_interval", rateInterval, "$__interval", interval.String(),
	"$__range", dataWithin.String(), "$namespace", namespace, "$release", release, "$service", ".+", "$pod", ".+")

// aQuery matches the query of a variable.
var aQuery = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// variablesHaveValues demands that the queries of the dashboards' variables find values.
func variablesHaveValues(t *testing.T, r *rig, all []dashboard) {
	t.Helper()
	for _, d := range all {
		for _, v := range d.Templating.List {
			if v.Name == "datasource" {
				continue
			}
			parts := aQuery.FindStringSubmatch(v.Definition)
			if parts == nil {
				t.Fatalf("%s: the variable %s asks %s", d.name, v.Name, v.Definition)
			}
			query := []string{chosen.Replace(parts[1])}
			found, _, _, err := r.prom.LabelValues(t.Context(), parts[2], query, time.Now().Add(-time.Hour), time.Now())
			if err != nil || len(found) == 0 {
				t.Errorf("%s: $%s has the values %v: %v", d.name, v.Name, found, err)
			}
		}
	}
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

// panelsHaveData waits until every expression of every panel has figures, with values for the variables.
func panelsHaveData(t *testing.T, r *rig, all []dashboard, since time.Time) {
	t.Helper()
	open := map[string]string{}
	for _, d := range all {
		for where, expr := range d.queries() {
			open[where] = chosen.Replace(expr)
		}
	}
	panels := len(open)
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
	t.Logf("%d of %d expressions have figures after %s", panels-len(open), panels, time.Since(since).Round(time.Second))
}

// aMetric matches the names of metrics, in expressions and in prose.
var aMetric = regexp.MustCompile(`\b(?:http_server|go|process|kube|rowlock|` + strings.Join(targets.Names(), "|") +
	`)_[a-z_]+[a-z]\b`)

// quoted matches the values of labels, which may look like metrics.
var quoted = regexp.MustCompile(`"[^"\n]*"`)

// metricsExist demands that the metrics which the rules and the runbook name are there.
func metricsExist(t *testing.T, r *rig) {
	t.Helper()
	asked := map[string]string{}
	for _, name := range aMetric.FindAllString(quoted.ReplaceAllString(read(t, runbookFile), ""), -1) {
		asked[name] = "the runbook"
	}
	for _, one := range chartRules(t) {
		for _, name := range aMetric.FindAllString(quoted.ReplaceAllString(one.Expr, ""), -1) {
			asked[name] = one.Alert + one.Record
		}
	}

	for name, where := range asked {
		one := `count(last_over_time({__name__=~"` + name + `(_count)?"}[5m]))`
		found, _, _, err := r.prom.Query(t.Context(), one, time.Now())
		if vector, _ := found.(model.Vector); err != nil || len(vector) == 0 {
			t.Errorf("%s: there is no %s: %v", where, name, err)
		}
	}
}
