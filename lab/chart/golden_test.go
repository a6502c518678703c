package chart

import (
	"flag"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write what the chart renders to testdata")

// source matches the empty lines and the comments that Helm writes between objects.
var source = regexp.MustCompile(`(?m)^(\s*|# Source: .*)\n`)

// values returns the file of values that a golden file of that name is rendered with.
func values(name string) string {
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
			"charts/events/templates/deployment.yaml", "templates/authpolicy.yaml", "templates/tests/check.yaml",
		}},
		"global": {umbrella, []string{
			"charts/counts/templates/*.yaml", "charts/iidy/templates/*.yaml", "templates/tests/check.yaml",
		}},
		"policies":  {umbrella, []string{"charts/*/templates/networkpolicy.yaml"}},
		"peers":     {umbrella, []string{"charts/counts/templates/networkpolicy.yaml"}},
		"check":     {umbrella, []string{"templates/tests/check.yaml"}},
		"passwords": {umbrella, []string{"charts/counts/templates/deployment.yaml"}},
		"nothing":   {umbrella, nil},
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
			file := "testdata/" + name + ".yaml"
			if *update {
				write(t, file, got)
			}
			if got != read(t, file) {
				t.Errorf("%s is not what the chart renders: git diff shows it after -update", file)
			}
		})
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
