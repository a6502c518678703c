package chart

import (
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
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// object is a rendered object, in its own type and as plain JSON.
type object struct {
	typed any
	plain dict
}

// objects holds them by kind and name, such as "Deployment/rowlock-counts".
type objects map[string]object

type list = []any

type dict = map[string]any

// grafanaDashboard has the fields of the Grafana operator's object that the chart sets. Its own module would bring the
// whole operator.
type grafanaDashboard struct {
	meta.TypeMeta
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		InstanceSelector          meta.LabelSelector        `json:"instanceSelector"`
		AllowCrossNamespaceImport bool                      `json:"allowCrossNamespaceImport"`
		ConfigMapRef              core.ConfigMapKeySelector `json:"configMapRef"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (d *grafanaDashboard) DeepCopyObject() runtime.Object {
	other := *d
	return &other
}

// decode decodes manifests. An unknown kind, an unknown or repeated field, a wrong type, and two objects of one name
// are errors.
func decode(manifests string) (objects, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, networking.AddToScheme,
		policy.AddToScheme, monitoring.AddToScheme, gateway.Install,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	grafana := schema.GroupVersion{Group: "grafana.integreatly.org", Version: "v1beta1"}
	scheme.AddKnownTypeWithName(grafana.WithKind("GrafanaDashboard"), &grafanaDashboard{})
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	all := objects{}
	for text := range strings.SplitSeq("\n"+manifests, "\n---") {
		var plain dict
		if err := yaml.Unmarshal([]byte(text), &plain); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		if len(plain) == 0 {
			continue
		}
		typed, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		name := fmt.Sprint(plain["kind"], "/", at(plain, "metadata.name"))
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s is rendered twice", name)
		}
		all[name] = object{typed, plain}
	}
	return all, nil
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

// at returns the value at a path such as spec.ports.0.port, nil where there is none. ~ stands for a dot inside a step.
func at(value any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case dict:
			value = v[strings.ReplaceAll(step, "~", ".")]
		case list:
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
