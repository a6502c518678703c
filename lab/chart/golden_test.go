package chart

import (
	"flag"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write what the chart renders to testdata") //nolint:gochecknoglobals // a flag

// source matches the empty lines and the comments that Helm writes between objects.
var source = regexp.MustCompile(`(?m)^(\s*|# Source: .*)\n`)

// The chart renders what testdata has: a default installation, and by the values for production one service, from which
// the others differ as they do by default. After a change: go test ./lab/chart -run TestGolden -update, and git diff.
func TestGolden(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		values string
		only   []string
	}{
		"testdata/defaults.yaml": {},
		"testdata/production.yaml": {read(t, umbrella+"/values-production.yaml"), []string{
			"--show-only=charts/payments/templates/*.yaml", "--show-only=templates/authpolicy.yaml",
		}},
	} {
		rendered, err := template(t, helm4, umbrella, c.values, c.only...)
		if err != nil {
			t.Fatal(err)
		}
		got := source.ReplaceAllString(rendered, "")
		if *update {
			write(t, file, got)
		}
		if got != read(t, file) {
			t.Errorf("%s is not what the chart renders: git diff shows it after -update", file)
		}
	}
}
