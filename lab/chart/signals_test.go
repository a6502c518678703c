package chart

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/platform/config"
)

// largest is what Kubernetes takes as one ConfigMap or Secret.
const largest = 1 << 20

// Every file of dashboards/ gets to Grafana as it stands, braces of legends and all, under a name that Kubernetes
// takes: by a sidecar, which finds the label, or by the Grafana operator, for which the label is absent.
func TestEveryDashboardIsShipped(t *testing.T) {
	t.Parallel()
	const operator = "dashboards: {grafanaOperator: {enabled: true, " +
		"instanceSelector: {matchLabels: {dashboards: null, team: a}}}}"
	bySidecar, byOperator := render(t, umbrella, complete), render(t, umbrella, operator)
	for _, file := range glob(t, umbrella+"/dashboards/*.json") {
		base := filepath.Base(file)
		name := "rowlock-dashboard-" + strings.TrimSuffix(base, ".json")
		if !regexp.MustCompile(`^[a-z0-9][-a-z0-9]*$`).MatchString(name) {
			t.Errorf("%s: no name for a dashboard", file)
		}

		want := map[string]string{base: strings.TrimRight(read(t, file), "\n")}
		for label, all := range map[string]objects{"yes": bySidecar, "": byOperator} {
			got := get[core.ConfigMap](t, all, "ConfigMap/"+name)
			if !maps.Equal(got.Data, want) {
				t.Errorf("%s is shipped as\n%s", file, got.Data)
			}
			if n := len(raw(t, got)); n > largest*9/10 {
				t.Errorf("%s: a ConfigMap of %d bytes", file, n)
			}
			if got := got.Labels["grafana_dashboard"]; got != label {
				t.Errorf("%s has the label grafana_dashboard=%q, want %q", file, got, label)
			}
		}

		const spec = `{"allowCrossNamespaceImport":true,"configMapRef":{"key":"%k","name":"%n"},` +
			`"instanceSelector":{"matchLabels":{"team":"a"}}`
		got := raw(t, at(byOperator["GrafanaDashboard/"+name].plain, "spec"))
		if !strings.HasPrefix(got, strings.NewReplacer("%k", base, "%n", name).Replace(spec)) {
			t.Errorf("the operator gets of %s %s", file, got)
		}
	}
}

// Several releases ship their rules to one Prometheus: each alert fires once, by the rules of its release.
// (testdata/rules.yaml shows how they are adapted.)
func TestReleasesSpeakForThemselves(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}

	dir := t.TempDir()
	var files []string
	for i, name := range [][2]string{{"shop", "blue"}, {"shop", "green"}, {"other", "blue"}} {
		manifests, err := run(t, helm4, complete, "template", name[1], umbrella, "--namespace="+name[0],
			"--kube-version="+kubernetes, "--values=-", "--show-only=templates/prometheusrule.yaml")
		if err != nil {
			t.Fatal(err)
		}

		var rule struct {
			Spec dict `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(manifests), &rule); err != nil {
			t.Fatal(err)
		}
		files = append(files, strconv.Itoa(i)+".yaml")
		write(t, filepath.Join(dir, files[i]), raw(t, rule.Spec))
	}

	test := filepath.Join(dir, "test.yaml")
	write(t, test, "rule_files: ["+strings.Join(files, ", ")+"]\n"+read(t, "testdata/releases.yaml"))
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
