package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// object is a rendered object, in its own type and as plain JSON.
type object struct {
	typed any
	plain map[string]any
}

// objects holds them by kind and name, such as "Deployment/rowlock-counts".
type objects map[string]object

// kinds returns a constructor of each kind that the chart may render.
func kinds() map[string]func() any {
	return map[string]func() any{
		"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
		"v1 Namespace":                            func() any { return new(core.Namespace) },
		"v1 Pod":                                  func() any { return new(core.Pod) },
		"v1 Secret":                               func() any { return new(core.Secret) },
		"v1 Service":                              func() any { return new(core.Service) },
		"v1 ServiceAccount":                       func() any { return new(core.ServiceAccount) },
		"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
		"apps/v1 StatefulSet":                     func() any { return new(apps.StatefulSet) },
		"batch/v1 Job":                            func() any { return new(batch.Job) },
		"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
		"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
		"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
		"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
		"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	}
}

// decode decodes manifests. An unknown kind, an unknown or repeated field, a wrong type, and two objects of one name
// fail the test.
func decode(t *testing.T, manifests string) objects {
	t.Helper()
	all := objects{}
	for text := range strings.SplitSeq("\n"+manifests, "\n---") {
		var plain map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &plain); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(plain) == 0 {
			continue
		}
		id := fmt.Sprint(plain["apiVersion"], " ", plain["kind"])
		empty, known := kinds()[id]
		if !known {
			t.Fatalf("the chart renders a %s, which this test does not know", id)
		}
		data, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		typed := empty()
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(typed); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		name := fmt.Sprint(plain["kind"], "/", at(plain, "metadata.name"))
		if _, twice := all[name]; twice {
			t.Errorf("%s is rendered twice", name)
		}
		all[name] = object{typed, plain}
	}
	return all
}

// get returns an object in its type.
func get[T any](t *testing.T, all objects, name string) *T {
	t.Helper()
	typed, ok := all[name].typed.(*T)
	if !ok {
		t.Fatalf("there is no %s, but %v", name, slices.Sorted(maps.Keys(all)))
	}
	return typed
}

// at returns the value at a path such as spec.ports.0.port, nil where there is none.
func at(value any, path string) any {
	for path != "" {
		var step string
		step, path, _ = strings.Cut(path, ".")
		switch v := value.(type) {
		case map[string]any:
			value = v[strings.ReplaceAll(step, "~", ".")]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
