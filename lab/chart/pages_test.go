package chart

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// secretsOf returns the secrets that pods cannot start without, with their keys.
func secretsOf(all objects) map[string][]string {
	found := map[string][]string{}
	for _, c := range containers(all) {
		for _, v := range c.Env {
			if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
				continue
			}
			if ref := v.ValueFrom.SecretKeyRef; ref.Optional == nil || !*ref.Optional {
				found[ref.Name] = append(found[ref.Name], ref.Key)
			}
		}
	}
	for _, o := range all {
		for _, v := range podTemplate(o).Spec.Volumes {
			if v.Secret != nil {
				found[v.Secret.SecretName] = append(found[v.Secret.SecretName], v.Secret.Items[0].Key)
			}
		}
	}

	for name, keys := range found {
		slices.Sort(keys)
		found[name] = slices.Compact(keys)
	}
	return found
}

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
	if want := secretsOf(render(t, umbrella, "", strings.Fields(flags)...)); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the README names %v, the installation needs %v", got, want)
	}
}

// Each secret that a pod of the example cannot start without comes from the store, and no other secret does.
func TestSecretsComeFromAStore(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, read(t, umbrella+"/examples/external-secrets.yaml"))
	brought := map[string][]string{}
	for name := range all {
		if secret, ok := strings.CutPrefix(name, "ExternalSecret/"); ok {
			brought[secret] = nil
		}
	}
	got, want := slices.Sorted(maps.Keys(brought)), slices.Sorted(maps.Keys(secretsOf(all)))
	if !slices.Equal(got, want) {
		t.Errorf("the store brings %v, the pods need %v", got, want)
	}
}

// Events' workers are scaled by a metric that they have, in the example for KEDA and in the values of OPERATING.md,
// which render. KEDA's maximum is what the budget counts.
func TestWorkersAreScaledByAMetric(t *testing.T) {
	t.Parallel()
	example := read(t, umbrella+"/examples/keda.yaml")
	_, rest, _ := strings.Cut(read(t, umbrella+"/OPERATING.md"), "\n```yaml\nevents:")
	page, _, _ := strings.Cut(rest, "```")
	render(t, umbrella, "events:"+page)

	const metric = "events_pending"
	if !strings.Contains(read(t, "../../services/events/REFERENCE.md"), "\n| `"+metric+"` |") {
		t.Errorf("events have no metric %s", metric)
	}
	for name, text := range map[string]string{"keda.yaml": example, "OPERATING.md": page} {
		if !strings.Contains(text, metric) {
			t.Errorf("%s does not scale by %s", name, metric)
		}
	}

	var set dict
	if err := yaml.Unmarshal([]byte(example), &set); err != nil {
		t.Fatal(err)
	}
	counted := at(set, "events.workloads.work.autoscaling.maxReplicas")
	if most := at(set, "extraObjects.0.spec.maxReplicaCount"); most != counted {
		t.Errorf("KEDA's maximum is %v, and the budget counts %v", most, counted)
	}
}

// The examples of callers in OPERATING.md are valid: the values render, and the pod has a token of the audience.
func TestTheCallersOfThePage(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, umbrella+"/OPERATING.md"), "\n## Who may call\n")
	values := tour.Block(section, "yaml")
	render(t, umbrella, values)

	_, section, _ = strings.Cut(section, values)
	all, err := decode(tour.Block(section, "yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := get[core.Pod](t, all, "Pod/checkout").Spec
	if token := pod.Volumes[0].Projected.Sources[0].ServiceAccountToken; token.Audience != "rowlock" {
		t.Errorf("the caller's token is %s", raw(t, token))
	}
	if got := pod.Containers[0].VolumeMounts[0].Name; got != pod.Volumes[0].Name {
		t.Errorf("the caller mounts %s, want %s", got, pod.Volumes[0].Name)
	}
}
