package chart

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// largest is what Kubernetes takes as one ConfigMap or Secret.
const largest = 1 << 20

// signals turns on all of dashboards/ and rules/, with labels for both.
const signals = `
prometheusRule: {enabled: true}
dashboards: {enabled: true, labels: {grafana_dashboard: yes please}, annotations: {grafana_folder: Rowlock}}
`

// Every file of dashboards/ gets to Grafana as it stands, braces of legends and all, under a name that Kubernetes
// takes.
func TestEveryDashboardIsShipped(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, signals)
	files := glob(t, umbrella+"/dashboards/*.json")
	for _, file := range files {
		base := filepath.Base(file)
		name := strings.TrimSuffix(base, ".json")
		if !regexp.MustCompile(`^[a-z0-9][-a-z0-9]*$`).MatchString(name) {
			t.Errorf("%s: no name for a dashboard", file)
		}
		got := get[core.ConfigMap](t, all, "ConfigMap/rowlock-dashboard-"+name)
		if !maps.Equal(got.Data, map[string]string{base: strings.TrimRight(read(t, file), "\n")}) {
			t.Errorf("%s is shipped as\n%s", file, got.Data)
		}
		if n := len(raw(t, got)); n > largest*9/10 {
			t.Errorf("%s: a ConfigMap of %d bytes", file, n)
		}
		if got.Labels["grafana_dashboard"] != "yes please" || got.Annotations["grafana_folder"] != "Rowlock" {
			t.Errorf("%s: %v, %v", name, got.Labels, got.Annotations)
		}
	}
	if n := len(all) - len(render(t, umbrella, "")); n != len(files)+1 {
		t.Errorf("the rules and %d dashboards add %d objects", len(files), n)
	}
}

// The Grafana operator finds each dashboard by its ConfigMap, for the Grafanas that are selected. A sidecar finds none.
func TestTheGrafanaOperatorGetsEveryDashboard(t *testing.T) {
	t.Parallel()
	const selected = `
dashboards:
  grafanaOperator: {enabled: true, instanceSelector: {matchLabels: {dashboards: null, team: a}}}
`
	all := renderAlike(t, umbrella, selected)
	for _, file := range glob(t, umbrella+"/dashboards/*.json") {
		base := filepath.Base(file)
		name := release + "-dashboard-" + strings.TrimSuffix(base, ".json")
		got := get[grafanaDashboard](t, all, "GrafanaDashboard/"+name).Spec
		source := get[core.ConfigMap](t, all, "ConfigMap/"+got.ConfigMapRef.Name)
		if source.Data[got.ConfigMapRef.Key] == "" {
			t.Errorf("%s is read from the key %q of %s, which has none", name, got.ConfigMapRef.Key, source.Name)
		}
		if got.ConfigMapRef.Key != base {
			t.Errorf("%s is read from the key %s, want %s", name, got.ConfigMapRef.Key, base)
		}
		if want := map[string]string{"team": "a"}; !maps.Equal(got.InstanceSelector.MatchLabels, want) {
			t.Errorf("%s selects %v, want %v", name, got.InstanceSelector.MatchLabels, want)
		}
		if label, found := source.Labels["grafana_dashboard"]; found {
			t.Errorf("%s has the label grafana_dashboard=%s", source.Name, label)
		}
		if !got.AllowCrossNamespaceImport {
			t.Errorf("%s is for the Grafanas of its own namespace alone", name)
		}
	}
}

// Every group of every file of rules/ gets to Prometheus, with the same values but for the release that it is about.
// The rules are decoded strictly: a field that the operator does not know is none that Prometheus knows.
func TestEveryRuleIsShipped(t *testing.T) {
	t.Parallel()
	var want []monitoring.RuleGroup
	for _, file := range glob(t, umbrella+"/rules/*.yaml") {
		var rules monitoring.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict([]byte(read(t, file)), &rules); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range rules.Groups {
			for i := range group.Rules {
				group.Rules[i].Expr.StrVal = fmt.Sprintf("(%s)\n%s", group.Rules[i].Expr.StrVal, ofRelease)
			}
		}
		want = append(want, rules.Groups...)
	}
	got := get[monitoring.PrometheusRule](t, render(t, umbrella, signals), "PrometheusRule/rowlock").Spec.Groups
	if len(got) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("shipped\n%s\nwant\n%s", raw(t, got), raw(t, want))
	}
}

// An alert may be left out, or differ; the objective sets the thresholds of both burn alerts. Every alert has the
// labels that are wanted, and leads to the page that is named. Recorded series stay as they are.
func TestRulesAreAdapted(t *testing.T) {
	t.Parallel()
	const adapted = `
prometheusRule:
  enabled: true
  labels: {release: monitoring}
  objective: 0.9995
  disabled: {RowlockLockedOut: true, RowlockPoolSaturated: false}
  additionalRuleLabels: {team: shop, severity: none}
  runbookUrl: https://wiki.example/rowlock
  overrides:
    RowlockSlow: {for: 30m, keep_firing_for: 5m, labels: {severity: info}, annotations: {summary: Slow}}
    RowlockIssuerAway: {expr: vector(1), annotations: {runbook_url: https://wiki.example/issuer}}
`
	rule := get[monitoring.PrometheusRule](t, render(t, umbrella, adapted), "PrometheusRule/rowlock")
	if got := rule.Labels["release"]; got != "monitoring" {
		t.Errorf("the label release is %q, want monitoring", got)
	}
	groups := func(values string) []monitoring.RuleGroup {
		return get[monitoring.PrometheusRule](t, render(t, umbrella, values), "PrometheusRule/rowlock").Spec.Groups
	}
	shipped := map[string]monitoring.Rule{}
	for _, group := range groups(adapted) {
		for _, rule := range group.Rules {
			shipped[rule.Alert+rule.Record] = rule
		}
	}
	for _, group := range groups(signals) {
		for _, rule := range group.Rules {
			want := *rule.DeepCopy() // other tests have the same
			name := want.Alert + want.Record
			got, ok := shipped[name]
			if ok == (name == "RowlockLockedOut") {
				t.Errorf("%s is shipped: %t", name, ok)
			}
			if !ok {
				continue
			}
			if want.Alert != "" {
				want.Labels["team"] = "shop"
				want.Labels["severity"] = "none"
				_, section, _ := strings.Cut(want.Annotations["runbook_url"], "#")
				want.Annotations["runbook_url"] = "https://wiki.example/rowlock#" + section
			}
			switch name {
			case "RowlockErrorBudgetBurnsFast", "RowlockErrorBudgetBurns":
				if n := strings.Count(want.Expr.StrVal, " * 0.001"); n != 4 {
					t.Errorf("%s compares %d windows with the default objective, want 4", name, n)
				}
				want.Expr.StrVal = strings.ReplaceAll(want.Expr.StrVal, " * 0.001", " * 0.0005")
			case "RowlockSlow":
				long, kept := monitoring.Duration("30m"), monitoring.NonEmptyDuration("5m")
				want.For, want.KeepFiringFor = &long, &kept
				want.Labels["severity"], want.Annotations["summary"] = "info", "Slow"
			case "RowlockIssuerAway":
				want.Expr.StrVal = "(vector(1))\n" + ofRelease
				want.Annotations["runbook_url"] = "https://wiki.example/issuer"
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s is shipped as\n%s\nwant\n%s", name, raw(t, got), raw(t, want))
			}
		}
	}
	for _, section := range []string{"disabled: {RowlockSlw: true}", "overrides: {RowlockSlw: {for: 1m}}"} {
		name, _, _ := strings.Cut(section, ":")
		wantRefused(t, umbrella, "prometheusRule: {enabled: true, "+section+"}",
			"prometheusRule."+name+".RowlockSlw: no alert of rules/ has this name; those are RowlockBatchesSlow, ")
	}
}

// The images that hack/images builds, and pushes, are those that the chart names.
func TestImagesAreWhereTheChartLooks(t *testing.T) {
	t.Parallel()
	for _, registry := range []string{"", "ghcr.io/you", "ghcr.io/you/"} {
		args := append([]string{"--names", "v1.2"}, targets.Names()...)
		build := exec.CommandContext(t.Context(), "../../hack/images", args...)
		build.Env = append(os.Environ(), "PUSH="+registry)
		out, err := build.Output()
		if err != nil {
			t.Fatal(err)
		}
		got, want := []string{}, strings.Fields(string(out))
		for _, o := range render(t, umbrella, "global: {image: {tag: v1.2, registry: '"+registry+"'}}") {
			switch o := o.typed.(type) {
			case *apps.Deployment:
				got = append(got, o.Spec.Template.Spec.Containers[0].Image)
			case *core.Pod:
				got = append(got, o.Spec.Containers[0].Image)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("registry %q: the chart looks for %v, built are %v", registry, got, want)
		}
	}
}
