package apptest

import (
	"slices"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	type service struct{ config.Common }
	c := Config[service](t, "postgres://u@h/d",
		map[string]string{"LOG_LEVEL": "warn"}, map[string]string{"LOG_LEVEL": "error"})
	if c.DatabaseURL != "postgres://u@h/d" || c.LogLevel != "error" || c.HTTPAddr != "127.0.0.1:0" {
		t.Errorf("%+v", c)
	}
}

// The names must be held against each other in both directions, with types and labels.
func TestReadmeMetrics(t *testing.T) {
	t.Parallel()
	const metrics = `# HELP rowlock_a x
# TYPE rowlock_a gauge
rowlock_a 1
# TYPE rowlock_wait_seconds histogram
rowlock_wait_seconds_bucket{where="a \"le\" {b=\"c\"}",lock="k",le="0.1"} 1
rowlock_wait_seconds_sum{where="a",lock="k"} 1
# TYPE own_b_total counter
own_b_total{reason="x"} 1
# TYPE go_c gauge
`
	want := []string{"own_b_total counter reason", "rowlock_a gauge", "rowlock_wait_seconds histogram lock, where"}
	if got := exposedMetrics(metrics, []string{"own_"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const readme = "| `early` | gauge | | before the section |\n## Metrics\n\n" +
		"| `rowlock_a` | gauge | | x |\n| `rowlock_wait_seconds` | histogram | lock, where | z |\n" +
		"| `own_b_total` | counter | reason | y |\n| `z` | other | | |\n"
	if got := readmeMetrics(readme); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
