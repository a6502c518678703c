package observe

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile   = chart + "/rules/rowlock.yaml"
	runbookFile = "../../docs/runbook.md"
	runbookURL  = "https://github.com/rowlock/rowlock/blob/main/docs/runbook.md"
)

// rule records a series or raises an alert.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// chartRules returns the rules of the chart.
func chartRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// alertRules returns the alerts of the chart.
func alertRules(t *testing.T) []rule {
	t.Helper()
	alerts := slices.DeleteFunc(chartRules(t), func(r rule) bool { return r.Alert == "" })
	if len(alerts) < 15 {
		t.Fatalf("%d alerts", len(alerts))
	}
	return alerts
}

// promtool runs the tool that comes with Prometheus.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	needPrometheus(t)
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func TestRulesAreSound(t *testing.T) {
	t.Parallel()
	promtool(t, ".", "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
}

// Prometheus' own unit tests: every alert fires where its cause is, with the sentence that people read, and nowhere
// else.
func TestAlertsFireWhereTheyShould(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rules/*_test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}

	var texts strings.Builder
	for _, file := range files {
		texts.WriteString(read(t, file))
	}

	healthy := read(t, "testdata/rules/healthy_test.yaml")
	for _, r := range alertRules(t) {
		if !strings.Contains(healthy, "alertname: "+r.Alert+", exp_alerts: []") {
			t.Errorf("%s has no test that it does not fire while all is well", r.Alert)
		}
		fires := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts:\n`)
		if !fires.MatchString(texts.String()) {
			t.Errorf("%s has no test in which it fires", r.Alert)
		}
	}

	promtool(t, ".", append([]string{"test", "rules"}, files...)...)
}

// Each alert has a section of the runbook, a severity and a summary, and does not mix releases.
func TestAlertsHaveARunbook(t *testing.T) {
	t.Parallel()
	sections := map[string]string{}
	for _, section := range strings.Split(read(t, runbookFile), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}

	alerts := alertRules(t)
	for _, r := range alerts {
		if got, want := r.Annotations["runbook_url"], runbookURL+"#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s leads to %s, want %s", r.Alert, got, want)
		}
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
			if !strings.Contains(sections[r.Alert], part) {
				t.Errorf("the runbook does not say of %s: %s", r.Alert, part)
			}
		}

		if r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s: summary %q, labels %v", r.Alert, r.Annotations["summary"], r.Labels)
		}
		for _, labels := range regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(r.Expr, -1) {
			ofOne := strings.Contains(r.Expr, "kube_") || strings.Contains(labels[1], "app_kubernetes_io_instance")
			if !ofOne || !strings.Contains(labels[1], "namespace") {
				t.Errorf("%s mixes releases: %s", r.Alert, labels[0])
			}
		}
	}

	for title := range sections {
		if strings.HasPrefix(title, "Rowlock") &&
			!slices.ContainsFunc(alerts, func(r rule) bool { return r.Alert == title }) {
			t.Errorf("the runbook has a section for %s, which is no alert", title)
		}
	}
}

// The Prometheus of compose.yaml gives its targets the labels by which the rules and the dashboards tell them apart.
func TestPrometheusOfCompose(t *testing.T) {
	t.Parallel()
	const file = "../../compose/prometheus.yaml"
	promtool(t, ".", "check", "config", "--syntax-only", file)
	text := read(t, file)
	for label := range (&fleet{}).labels(0) {
		if (label == "namespace" || label == "pod" || strings.HasPrefix(label, "app_")) &&
			!strings.Contains(text, "{target_label: "+label+",") {
			t.Errorf("%s does not set %s", file, label)
		}
	}
}
