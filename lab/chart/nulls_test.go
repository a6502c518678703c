package chart

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/chartvalues"
)

// knobsOf are the keys of a chart's values, but for those of the services in the umbrella, which their own chart judges.
func knobsOf(t *testing.T, chart string) (keys []chartvalues.Key) {
	t.Helper()
	values, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartvalues.Read(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		section, _, _ := strings.Cut(key.Path, ".")
		if !slices.Contains([]string{"counts", "events", "iidy", "payments", "pyggpot"}, section) {
			keys = append(keys, key)
		}
	}
	return keys
}

// means nothing: what a template takes null for.
func empty(key chartvalues.Key) bool {
	return slices.Contains([]string{`""`, "{}", "[]", "false"}, key.Default)
}

// Helm takes a key away that is null, before the schema looks. Where the default is empty that changes nothing. Everywhere else the schema
// has to demand the key and the sections above it: what a template would make of its absence is a Kubernetes default, or a policy that
// fails open.
func TestTheSchemaDemandsWhatHasADefault(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{alone, umbrella} {
		data, err := os.ReadFile(chart + "/values.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		var schema dict
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		demanded := 0
		for _, key := range knobsOf(t, chart) {
			if key.Default == "" || key.Path == "global" {
				continue
			}
			node, steps := schema, strings.Split(key.Path, ".")
			for i, step := range steps {
				last := i == len(steps)-1
				required, _ := node["required"].(list)
				if has := slices.Contains(required, any(step)); !has && (!last || !empty(key)) {
					t.Errorf("%s: %s: null: the schema does not demand %s", chart, key.Path, strings.Join(steps[:i+1], "."))
				} else if has {
					demanded++
				}
				properties, _ := node["properties"].(dict)
				node, _ = properties[step].(dict)
			}
		}
		if demanded < 10 {
			t.Errorf("%s: the schema demands %d keys and sections", chart, demanded)
		}
	}
}

// null instead of an empty default renders the same.
func TestNullIsAsGoodAsEmpty(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for chart, values := range map[string]string{alone: bare, umbrella: "{}"} {
			args := []string{"template", release, chart, "--kube-version=" + kubernetes, "--values=-"}
			want, err := run(t, helm, values, args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range knobsOf(t, chart) {
				if empty(key) && !strings.Contains(values, key.Path[strings.LastIndex(key.Path, ".")+1:]+": ") {
					args = append(args, "--set="+key.Path+"=null")
				}
			}
			if n := len(args); n < 15 {
				t.Errorf("%s: %d arguments set next to nothing to null", chart, n)
			}
			if got, err := run(t, helm, values, args...); err != nil || got != want {
				t.Errorf("%s: all that is empty set to null renders otherwise: %v", chart, err)
			}
		}
	})
}
