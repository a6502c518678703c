package chart

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// identified asks all callers for a token, and lets one account do something.
const identified = `
global:
  auth: {enabled: true, rules: [{subjects: ["system:serviceaccount:shop:*"], services: [iidy], allow: [read]}]}
`

// authOf returns the variables of a container whose names begin with AUTH.
func authOf(c core.Container) map[string]string {
	found := map[string]string{}
	for _, v := range c.Env {
		if strings.HasPrefix(v.Name, "AUTH") {
			found[v.Name] = v.Value
		}
	}
	return found
}

// ruleSet is a policy.
type ruleSet struct {
	Rules []struct{ Subjects, Services, Allow []string }
}

// policyOf returns the policy of a ConfigMap.
func policyOf(t *testing.T, all objects, name string) (policy ruleSet) {
	t.Helper()
	text := get[core.ConfigMap](t, all, "ConfigMap/"+name).Data["policy.yaml"]
	if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return policy
}

// A change of the rules, here one to all services, changes the ConfigMap and nothing else, so that no pod is replaced.
func TestAChangeOfThePolicyReplacesNoPod(t *testing.T) {
	t.Parallel()
	before := render(t, umbrella, identified)
	after := render(t, umbrella, strings.ReplaceAll(identified, "[iidy]", "["+strings.Join(targets.Names(), ", ")+"]"))
	for name := range before {
		same := bytes.Equal(raw(t, before[name].plain), raw(t, after[name].plain))
		if same == (name == "ConfigMap/rowlock-auth") {
			t.Errorf("%s: it stays the same: %t", name, same)
		}
	}
}

// One service may ask for tokens when all others do not, or be the only one that does not.
func TestAuthIsSwitchedOneByOne(t *testing.T) {
	t.Parallel()
	others := slices.DeleteFunc(targets.Names(), func(name string) bool { return name == targets.Pyggpot })
	for values, want := range map[string][]string{
		identified + "pyggpot: {auth: {enabled: false}}":                                        others,
		strings.Replace(identified, "enabled: true, ", "", 1) + "iidy: {auth: {enabled: true}}": {"iidy"},
	} {
		all := render(t, umbrella, values)
		var asking, ways []string
		for _, name := range targets.Names() {
			c := get[apps.Deployment](t, all, "Deployment/rowlock-"+name).Spec.Template.Spec.Containers[0]
			if authOf(c)["AUTH"] == "token" {
				asking = append(asking, name)
			}
			for _, rule := range get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+name).Spec.Egress {
				if rule.Ports[0].Port.IntValue() == 443 {
					ways = append(ways, name)
				}
			}
		}
		if !slices.Equal(asking, want) || !slices.Equal(ways, want) {
			t.Errorf("%s: %v ask, %v have a way to the API server, want %v", values, asking, ways, want)
		}
		policyOf(t, all, "rowlock-auth")
	}
}

// What OPERATING.md shows about callers is as valid as it looks: the values render, and the pod has a token of the
// audience.
func TestTheCallersOfThePage(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, umbrella+"/OPERATING.md"), "\n## Who may call\n")
	values := tour.Block(section, "yaml")
	if n := len(policyOf(t, render(t, umbrella, values), "rowlock-auth").Rules); n != 3 {
		t.Errorf("with the check's there are %d rules", n)
	}
	_, section, _ = strings.Cut(section, values)
	all, err := decode(tour.Block(section, "yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := get[core.Pod](t, all, "Pod/checkout").Spec
	if token := pod.Volumes[0].Projected.Sources[0].ServiceAccountToken; token.Audience != "rowlock" ||
		token.Path != "token" || pod.Volumes[0].Name != pod.Containers[0].VolumeMounts[0].Name {
		t.Errorf("the caller is %s", raw(t, pod))
	}
}
