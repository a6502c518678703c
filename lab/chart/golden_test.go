package chart

import (
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the chart renders to testdata")

// compare compares a text with a golden file, or writes it there.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		write(t, file, got)
	}
	if got != read(t, file) {
		t.Errorf("%s is not what the chart renders: git diff shows it after -update", file)
	}
}

// source matches the empty lines and the comments that Helm writes between objects.
var source = regexp.MustCompile(`(?m)^(\s*|# Source: .*)\n`)

// values returns the file of values that a golden file of that name is rendered with.
func values(name string) string {
	if example, ok := strings.CutPrefix(name, "example-"); ok {
		return umbrella + "/examples/" + example + ".yaml"
	}
	if name == "production" {
		return umbrella + "/values-production.yaml"
	}
	return "testdata/values/" + name + ".yaml"
}

// goldens returns which chart each golden file renders, and the templates that it shows, all where none is named.
func goldens() map[string]struct {
	chart string
	only  []string
} {
	const deployment, job = "/templates/deployment.yaml", "/templates/job.yaml"
	return map[string]struct {
		chart string
		only  []string
	}{
		"defaults": {umbrella, nil},
		// One service, from which the others differ as they do by default.
		"production": {umbrella, []string{"charts/payments/templates/*.yaml", "templates/authpolicy.yaml"}},

		"service": {alone, nil}, "service-uri": {alone, nil}, "service-password": {alone, nil},

		"alike": {umbrella, []string{
			"charts/iidy/templates/*.yaml", "charts/pyggpot/templates/service.yaml",
			"charts/events/templates/servicemonitor.yaml", "templates/tests/check.yaml", "templates/extraobjects.yaml",
		}},
		"auth": {umbrella, []string{
			"charts/events" + deployment, "charts/events/templates/networkpolicy.yaml", "templates/authpolicy.yaml",
			"templates/tests/check.yaml",
		}},
		"global": {umbrella, []string{
			"charts/counts/templates/*.yaml", "charts/iidy/templates/*.yaml", "templates/tests/check.yaml",
		}},
		// Where the platform chooses the group, the chart names none.
		"passwords": {umbrella, []string{"charts/counts" + deployment}},
		"policies":  {umbrella, []string{"charts/*/templates/networkpolicy.yaml"}},
		// The check reaches the APIs of all services that have a policy, though none names it.
		"peers": {umbrella, []string{"charts/counts/templates/networkpolicy.yaml", "templates/tests/networkpolicy.yaml"}},
		"check": {umbrella, []string{"templates/tests/check.yaml"}},
		// Certificates of the server and of the client, for those who migrate and for those who serve.
		"owner-init": {umbrella, []string{"charts/counts" + deployment}},
		"owner-job":  {umbrella, []string{"charts/counts" + deployment, "charts/counts" + job}},
		"rules":      {umbrella, []string{"templates/prometheusrule.yaml"}},
		"nothing":    {umbrella, nil},

		"example-citus": {umbrella, []string{"charts/counts" + job, "charts/*/templates/configmap.yaml"}},
		"example-cloudnativepg": {umbrella, []string{
			"charts/iidy" + deployment, "charts/iidy/templates/networkpolicy.yaml",
		}},
		"example-external-secrets":   {umbrella, []string{"templates/extraobjects.yaml"}},
		"example-keda":               {umbrella, []string{"charts/events" + deployment, "templates/extraobjects.yaml"}},
		"example-managed-postgresql": {umbrella, []string{"charts/iidy" + deployment, "charts/iidy" + job}},
	}
}

// The charts render what testdata has, by Helm 3 and by Helm 4, with the values of testdata/values. Every field is one
// that Kubernetes knows. After a change: go test ./lab/chart -run TestGolden -update, and git diff.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, c := range goldens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := ""
			if name != "defaults" {
				given = read(t, values(name))
			}
			var only []string
			for _, one := range c.only {
				only = append(only, "--show-only="+one)
			}

			got := rendered(t, helm4, c.chart, given, only...)
			if other := rendered(t, helm3, c.chart, given, only...); other != got {
				t.Errorf("Helm 3 renders\n%s\nHelm 4\n%s", other, got)
			}
			if _, err := decode(got); err != nil {
				t.Error(err)
			}
			compare(t, "testdata/"+name+".yaml", got)
		})
	}

	for _, file := range glob(t, umbrella+"/examples/*.yaml") {
		name := "example-" + strings.TrimSuffix(filepath.Base(file), ".yaml")
		if _, tested := goldens()[name]; !tested {
			t.Errorf("%s has no golden file", file)
		}
	}
}

// rendered returns what a Helm renders, without what differs between Helms.
func rendered(t *testing.T, helm, chart, values string, args ...string) string {
	t.Helper()
	manifests, err := template(t, helm, chart, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return source.ReplaceAllString(manifests, "")
}

// notes returns what Helm 4 prints after an installation. (Helm 3 built as a Go tool assumes Kubernetes 1.20, which the
// chart refuses.)
func notes(t *testing.T, values string) string {
	t.Helper()
	out, err := run(t, helm4, values, "install", release, umbrella, "--dry-run=client", "--values=-")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(out, "\nNOTES:\n")
	return text
}

// TestGoldenNotes compares the notes after an installation. The defaults and the values for production warn of nothing.
func TestGoldenNotes(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"defaults":   "{}",
		"production": read(t, umbrella+"/values-production.yaml"),
		"own-role": "global: {image: {registry: ghcr.io/you}, migrations: {mode: init}, " +
			"database: {caSecret: rowlock-db-ca}}",
		"auth": identified,
		"own-policy": "global: {auth: {enabled: true, existingConfigMap: policy}}\n" +
			"pyggpot: {networkPolicy: {adminFrom: []}, extraEnvFrom: [{configMapRef: {name: flags}}]}",
		"warnings": "global: {database: {maxConnections: 94, pooler: transaction}, networkPolicy: {enabled: false}}\n" +
			"payments: {config: {ALLOW_BARE_FINGERPRINTS: true}, secretEnv: {FINGERPRINT_SECRET: {existingSecret: ''}}}",
		"route": "iidy: {httpRoute: {enabled: true, parentRefs: [{name: public}]}}",
	} {
		got := notes(t, values)
		compare(t, "testdata/notes/"+name+".txt", got)
		if strings.Contains(got, "WARNING") != (name == "warnings" || name == "route") {
			t.Errorf("%s: the notes are\n%s", name, got)
		}
	}
}

// Every value is set in the values of a golden file. What the umbrella's values say of a service are values of its
// chart, set there.
func TestEveryKnobIsTurned(t *testing.T) {
	t.Parallel()
	// These are set in other files, whose tests look at more than a field.
	elsewhere := []string{
		"database.secondPoolConns", "database.maxConnections", "enabled", "requiredSecrets", "migrations.job", "dashboards",
		"global.commonLabels", "global.commonAnnotations", "global.podLabels", "global.podAnnotations",
	}
	turned := map[string][]dict{}
	for name, golden := range goldens() {
		if name == "defaults" {
			continue
		}
		var set dict
		if err := yaml.Unmarshal([]byte(read(t, values(name))), &set); err != nil {
			t.Fatal(err)
		}
		turned[golden.chart] = append(turned[golden.chart], set)
		if service, ok := set["counts"].(dict); ok && strings.HasPrefix(name, "owner-") {
			turned[alone] = append(turned[alone], service)
		}
	}

	for _, chart := range []string{alone, umbrella} {
		for _, key := range keysOf(t, chart) {
			of, path := chart, key.Path
			if chart == umbrella && !itsOwn(key) {
				_, path, _ = strings.Cut(path, ".")
				of = alone
			}
			section, _, _ := strings.Cut(path, ".")
			switch {
			case of == alone && section == "global": // as the umbrella's
				continue
			case slices.Contains([]string{"config", "secretEnv", "workloads"}, section): // their keys are the user's
				path = section
			}

			set := slices.ContainsFunc(turned[of], func(set dict) bool { return at(set, path) != nil })
			other := slices.ContainsFunc(elsewhere, func(knob string) bool {
				return path == knob || strings.HasPrefix(path, knob+".")
			})
			if !set && !other && key.Default != "" {
				t.Errorf("%s: no golden file sets %s", chart, key.Path)
			}
		}
	}
}
