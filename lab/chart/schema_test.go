package chart

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/chartvalues"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// keysOf are the keys of a chart's values.
func keysOf(t *testing.T, chart string) []chartvalues.Key {
	t.Helper()
	keys, err := chartvalues.Read([]byte(read(t, chart+"/values.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// schemaOf is a chart's schema.
func schemaOf(t *testing.T, chart string) (schema dict) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// The schemas are strict at every level that is ours: an object either lists its properties and allows no others, or
// says what any of its values is, as the umbrella does of the services. What Kubernetes defines (extraEnv, affinity and
// such) is checked by Kubernetes.
func TestSchemasAreStrict(t *testing.T) {
	t.Parallel()
	open := []string{"/affinity", "/global/affinity", "/test/affinity", "/events", "/*"}
	shared := regexp.MustCompile(`^/global(/\w+)?$`) // with other charts
	for _, chart := range []string{alone, umbrella} {
		schema := schemaOf(t, chart)
		var walk func(path string, node dict)
		walk = func(path string, node dict) {
			if node["type"] == "object" && node["additionalProperties"] == nil && !slices.Contains(open, path) {
				t.Errorf("%s: %s allows anything", chart, path)
			}
			if node["additionalProperties"] == true && !shared.MatchString(path) {
				t.Errorf("%s: %s allows anything", chart, path)
			}

			for _, keyword := range []string{"properties", "patternProperties"} {
				properties, _ := node[keyword].(dict)
				for name, child := range properties {
					if node, ok := child.(dict); ok {
						walk(path+"/"+name, node)
					}
				}
			}
			if inner, ok := node["additionalProperties"].(dict); ok {
				walk(path+"/*", inner)
			}
		}

		walk("", schema)
		if schema["additionalProperties"] == nil || schema["$schema"] != "http://json-schema.org/draft-07/schema#" {
			t.Errorf("%s: the root is open", chart)
		}
	}
}

// itsOwn reports whether the chart's own schema covers a key: the umbrella leaves a service's keys to the service's
// chart.
func itsOwn(key chartvalues.Key) bool {
	section, _, _ := strings.Cut(key.Path, ".")
	return !slices.Contains(targets.Names(), section)
}

// empty is a default that null may stand for.
func empty(key chartvalues.Key) bool {
	return slices.Contains([]string{`""`, "{}", "[]", "false"}, key.Default)
}

// Helm takes a key away that is null, before the schema looks. Where the default is empty that changes nothing.
// Everywhere else the schema has to demand the key and the sections above it: what a template would make of its absence
// is a Kubernetes default, or a policy that fails open. Of replicas the absence is a value.
func TestTheSchemaDemandsWhatHasADefault(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{alone, umbrella} {
		schema := schemaOf(t, chart)
		demanded := 0
		for _, key := range keysOf(t, chart) {
			if !itsOwn(key) || key.Default == "" || key.Path == "replicas" {
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
	for _, chart := range []string{alone, umbrella} {
		var args []string
		for _, key := range keysOf(t, chart) {
			required := chart == alone && (key.Path == "image.repository" || key.Path == "database.existingSecret")
			if itsOwn(key) && empty(key) && !required {
				args = append(args, "--set="+key.Path+"=null")
			}
		}
		if len(args) < 10 {
			t.Errorf("%s: %s sets next to nothing to null", chart, args)
		}
		if !reflect.DeepEqual(render(t, chart, "", args...), render(t, chart, "")) {
			t.Errorf("%s: all that is empty set to null renders otherwise", chart)
		}
	}
}
