package chart

import (
	"strings"
	"testing"
)

// The values for production are one page, and leave nothing to warn of.
func TestValuesForProduction(t *testing.T) {
	t.Parallel()
	const lines = 60
	values := read(t, umbrella+"/values-production.yaml")
	if n := strings.Count(values, "\n"); n > lines {
		t.Errorf("they have %d lines, at most %d", n, lines)
	}
	renderAlike(t, umbrella, values)
	out, err := run(t, helm4, values, "install", release, umbrella, "--dry-run=client", "--values=-")
	if err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(out, "\nNOTES:\n")
	for _, warning := range []string{"WARNING", "No token is asked", "Any pod may call", "not verified"} {
		if strings.Contains(notes, warning) {
			t.Errorf("the notes say %q:\n%s", warning, notes)
		}
	}
}
