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

// alertRule is one alert of the chart's rules.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// chartAlerts are the alerts of the chart's rules.
func chartAlerts(t *testing.T) (alerts []alertRule) {
	t.Helper()
	var doc struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &doc); err != nil {
		t.Fatal(err)
	}
	for _, group := range doc.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts = append(alerts, rule)
			}
		}
	}
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

// Prometheus' own unit tests: every alert fires where it is provoked, with the
// sentence that people read, and for nobody else.
func TestAlertsFireWhereTheyShould(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rules/*_test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	provoked, silent := make(map[string]bool), make(map[string]bool)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), "_test.yaml"), func(t *testing.T) {
			t.Parallel()
			promtool(t, filepath.Dir(file), "test", "rules", filepath.Base(file))
		})
		var doc struct {
			Tests []struct {
				Alerts []struct {
					Name     string `yaml:"alertname"`
					Expected []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		if err := yaml.Unmarshal([]byte(read(t, file)), &doc); err != nil {
			t.Fatal(err)
		}
		for _, test := range doc.Tests {
			for _, alert := range test.Alerts {
				provoked[alert.Name] = provoked[alert.Name] || len(alert.Expected) > 0
				silent[alert.Name] = silent[alert.Name] || len(alert.Expected) == 0
			}
		}
	}
	for _, alert := range chartAlerts(t) {
		if !provoked[alert.Alert] || !silent[alert.Alert] {
			t.Errorf("%s: there is a test in which it fires: %t, and one in which it does not: %t",
				alert.Alert, provoked[alert.Alert], silent[alert.Alert])
		}
	}
}

// Each alert leads to a section of the runbook that says what people want to
// know, and keeps releases apart.
func TestAlertsHaveARunbook(t *testing.T) {
	t.Parallel()
	sections := make(map[string]string)
	for _, section := range strings.Split(read(t, runbookFile), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	alerts := chartAlerts(t)
	for _, alert := range alerts {
		if got, want := alert.Annotations["runbook_url"], runbookURL+"#"+anchor(alert.Alert); got != want {
			t.Errorf("%s leads to %s, want %s", alert.Alert, got, want)
		}
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
			if !strings.Contains(sections[alert.Alert], part) {
				t.Errorf("the runbook does not say of %s: %s", alert.Alert, part)
			}
		}
		if alert.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, alert.Labels["severity"]) {
			t.Errorf("%s: summary %q, labels %v", alert.Alert, alert.Annotations["summary"], alert.Labels)
		}
		grouped := regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(alert.Expr, -1)
		for _, labels := range grouped {
			release := strings.Contains(alert.Expr, "kube_") || strings.Contains(labels[1], "app_kubernetes_io_instance")
			if !release || !strings.Contains(labels[1], "namespace") {
				t.Errorf("%s mixes releases: %s", alert.Alert, labels[0])
			}
		}
	}
	for title := range sections {
		if strings.HasPrefix(title, "Rowlock") && !slices.ContainsFunc(alerts, func(a alertRule) bool { return a.Alert == title }) {
			t.Errorf("the runbook has a section for %s, which is no alert", title)
		}
	}
}

// Every metric that the runbook names is one that a README documents.
func TestRunbookNamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	documented := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram) \\|")
	known := make(map[string]bool)
	readmes, err := filepath.Glob("../../services/*/README.md")
	if err != nil || len(readmes) == 0 {
		t.Fatal(readmes, err)
	}
	for _, readme := range readmes {
		for _, match := range documented.FindAllStringSubmatch(read(t, readme), -1) {
			known[match[1]] = true
		}
	}
	named := regexp.MustCompile(`\b(?:rowlock|http_server|payments|counts|iidy|events|pyggpot)_[a-z_]+[a-z]`).
		FindAllString(read(t, runbookFile), -1)
	if len(named) < 20 {
		t.Errorf("it names %v", named)
	}
	for _, name := range named {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if !known[name] && !known[base] && name != "events_add" { // a coalescer
			t.Errorf("the runbook names %s, which no service has", name)
		}
	}
}

// anchor is what GitHub makes of a heading of one word.
func anchor(heading string) string { return strings.ToLower(heading) }
