package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	deployment = "Deployment/rowlock"
	pod        = "spec.template.spec."
	digest     = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// valuesOfEach returns a line of values for every service, whose format gets its name and the first letter of that.
func valuesOfEach(format string) string {
	var values strings.Builder
	for _, name := range targets.Names() {
		_, _ = fmt.Fprintf(&values, format+"\n", name, name[:1])
	}
	return values.String()
}

// Every value is set in the values of a golden file. What the umbrella's values say of a service are values of its
// chart, set there.
func TestEveryKnobIsTurned(t *testing.T) {
	t.Parallel()
	// These are set in other files, whose tests look at more than a field.
	elsewhere := []string{
		"database.secondPoolConns", "database.maxConnections", "global.database.maxConnections", "enabled", "requiredSecrets",
		"database.clientCertSecret", "migrations.clientCertSecret", "migrations.job", "podSecurityContext.fsGroup",
		"prometheusRule", "dashboards", "global.commonLabels", "global.commonAnnotations", "global.podLabels",
		"global.podAnnotations",
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
