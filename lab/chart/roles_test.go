package chart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The limits that the notes print for the runtime roles are what the chart counts. All fit the server of
// k8s/postgres.yaml.
func TestConnectionLimitsAreTheBudget(t *testing.T) {
	t.Parallel()
	most := 100 // as PostgreSQL ships
	if _, set, found := strings.Cut(read(t, "../../k8s/postgres.yaml"), "-cmax_connections="); found {
		if _, err := fmt.Sscan(set, &most); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, helm4, "", "install", release, umbrella, "--dry-run=client")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, service := range targets.Names() {
		args := make([]string, 0, len(targets.Names()))
		for _, other := range targets.Names() {
			args = append(args, fmt.Sprintf("--set=%s.enabled=%t", other, other == service))
		}
		need := connections(t, render(t, umbrella, "", args...))
		if note := fmt.Sprintf(" %s %d", service, need); !strings.Contains(out, note) {
			t.Errorf("the notes lack %q:\n%s", note, out)
		}
		sum += need
	}
	if sum > most-3 { // superuser_reserved_connections
		t.Errorf("all roles together may open %d connections of %d", sum, most)
	}
}
