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

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// workloads returns the Deployments of a default installation.
func workloads() (names []string) {
	for _, s := range targets.All() {
		for _, suffix := range s.Workloads() {
			names = append(names, "rowlock-"+s.Name+suffix)
		}
	}
	return names
}

// restricted checks the pod security standard of that name, and that there is no token.
func restricted(t *testing.T, name string, pod core.PodSpec) {
	t.Helper()
	c := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.AutomountServiceAccountToken ||
		pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
		*c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
		!slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s is not restricted, or gets a token: %s", name, raw(t, pod))
	}
}

// environment returns the variables of a container; those of secrets as secret/key.
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
		if v.ValueFrom == nil {
			continue
		}
		if field := v.ValueFrom.ResourceFieldRef; field != nil {
			env[v.Name] = fmt.Sprintf("%s in units of %s", field.Resource, field.Divisor.String())
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			env[v.Name] = fmt.Sprintf("%s/%s", ref.Name, ref.Key)
			if ref.Optional != nil && *ref.Optional {
				env[v.Name] += "?"
			}
		}
	}
	return env
}

// A pod of the default installation is replaced when its configuration changes, and not by another version of the chart
// that brings nothing new.
func TestPodsRollForTheirConfigurationAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(umbrella)); err != nil {
		t.Fatal(err)
	}
	version := metadataOf(t, umbrella).Version
	for _, chart := range []string{"", "charts/service"} {
		file := filepath.Join(dir, chart, "Chart.yaml")
		write(t, file, strings.ReplaceAll(read(t, file), "version: "+version, "version: 99.0.0"))
	}
	before := render(t, umbrella, "")
	after, changed := render(t, dir, ""), render(t, umbrella, "counts: {config: {LOG_LEVEL: debug}}")
	if got := at(after["ConfigMap/rowlock-counts"].plain, "metadata.labels.helm~sh/chart"); got != "counts-99.0.0" {
		t.Errorf("the other version is not rendered: %v", got)
	}
	for _, w := range workloads() {
		of := func(all objects) string {
			return string(raw(t, get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template))
		}
		if of(after) != of(before) {
			t.Errorf("%s is\n%s\nof another version\n%s", w, of(before), of(after))
		}
		if rolls := of(changed) != of(before); rolls != (w == "rowlock-counts") {
			t.Errorf("%s rolls for a change of counts' configuration: %t", w, rolls)
		}
	}
}

// An image without a registry is never pulled: its name would lead to a registry's namespace that is not ours.
func TestImagesWithoutARegistryAreLocal(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]core.PullPolicy{
		"global: {migrations: {mode: init}}":                                      core.PullNever,
		"global: {migrations: {mode: job}}":                                       core.PullNever,
		"global: {migrations: {mode: init}, image: {registry: ghcr.io/you}}":      core.PullIfNotPresent,
		"global: {migrations: {mode: init}, image: {registry: 'localhost:5000'}}": core.PullIfNotPresent,
	} {
		for name, o := range render(t, umbrella, values) {
			pod := podOf(o)
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				if c.ImagePullPolicy != want {
					t.Errorf("%s: %s, %s: %s is pulled %s, want %s", values, name, c.Name, c.Image, c.ImagePullPolicy, want)
				}
			}
		}
	}
}

func raw(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A service's own GOMAXPROCS, wherever it stands, is the only one.
func TestProcessorsMayBeNamed(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		`counts: {config: {GOMAXPROCS: 3}}`, `global: {config: {GOMAXPROCS: 3}}`,
		`counts: {extraEnv: [{name: GOMAXPROCS, value: "3"}]}`,
	} {
		if got := environment(t, render(t, umbrella, values), "rowlock-counts")["GOMAXPROCS"]; got != "3" {
			t.Errorf("with %s counts gets GOMAXPROCS=%s", values, got)
		}
	}
}
