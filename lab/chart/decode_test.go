package chart

import (
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
	"k8s.io/apimachinery/pkg/runtime"
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

// foreign lists the kinds of operators whose modules are too large to link. decode leaves them plain.
var foreign = []string{"ExternalSecret", "GrafanaDashboard", "ScaledObject"}

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

	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	all := objects{}
	for text := range strings.SplitSeq("\n"+manifests, "\n---") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(text), &o.plain); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		if len(o.plain) == 0 {
			continue
		}

		kind := fmt.Sprint(o.plain["kind"])
		if !slices.Contains(foreign, kind) {
			typed, _, err := decoder.Decode([]byte(text), nil, nil)
			if err != nil {
				return nil, fmt.Errorf("%w in\n%s", err, text)
			}
			o.typed = typed
		}

		name := fmt.Sprint(kind, "/", at(o.plain, "metadata.name"))
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s is rendered twice", name)
		}
		all[name] = o
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

// podTemplate returns the template of an object's pods; an empty one if the object has none.
func podTemplate(o object) core.PodTemplateSpec {
	switch o := o.typed.(type) {
	case *apps.Deployment:
		return o.Spec.Template
	case *batch.Job:
		return o.Spec.Template
	case *core.Pod:
		return core.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	default:
		return core.PodTemplateSpec{}
	}
}

// containers returns all containers of all pods.
func containers(all objects) (found []core.Container) {
	for _, o := range all {
		pod := podTemplate(o).Spec
		found = slices.Concat(found, pod.InitContainers, pod.Containers)
	}
	return found
}

// environment returns the variables of a Deployment's first container; secrets as secret/key.
func environment(t *testing.T, all objects, workload string) map[string]string {
	t.Helper()
	env := map[string]string{}
	c := get[apps.Deployment](t, all, "Deployment/"+workload).Spec.Template.Spec.Containers[0]
	for _, from := range c.EnvFrom {
		maps.Copy(env, get[core.ConfigMap](t, all, "ConfigMap/"+from.ConfigMapRef.Name).Data)
	}

	for _, v := range c.Env {
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s: %s is set twice", workload, v.Name)
		}
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			env[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		}
	}
	return env
}

func raw(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
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

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
