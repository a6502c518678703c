package chart

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// The README's table of secrets has those, with those keys, that its own `helm install` needs, and no others. lab/e2e
// runs its commands.
func TestTheReadmeNamesTheSecrets(t *testing.T) {
	t.Parallel()
	readme := read(t, umbrella+"/README.md")
	_, section, _ := strings.Cut(readme, "\n## Install\n")
	_, command, _ := strings.Cut(tour.Block(section, "sh"), "\nhelm install rowlock charts/rowlock --wait ")
	flags, _, found := strings.Cut(command, "\n")
	if !found {
		t.Fatal("the README does not install")
	}
	want := secretsOf(render(t, umbrella, "", strings.Fields(flags)...))
	for secret, keys := range want {
		slices.Sort(keys)
		want[secret] = slices.Compact(keys)
	}

	_, section, _ = strings.Cut(readme, "\n| secret | keys | |\n")
	section, _, _ = strings.Cut(section, "\n\n")
	code, got := regexp.MustCompile("`([^`]+)`"), map[string][]string{}
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		name := code.FindStringSubmatch(cells[1])
		if name == nil {
			continue
		}
		var keys []string
		for _, key := range code.FindAllStringSubmatch(cells[2], -1) {
			keys = append(keys, key[1])
		}
		slices.Sort(keys)
		for _, service := range targets.Names() {
			got[strings.ReplaceAll(name[1], "<service>", service)] = keys
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the README names %v, the installation needs %v", got, want)
	}
}
