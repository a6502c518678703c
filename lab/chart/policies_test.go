package chart

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// identified asks all callers for a token, and lets one account do something.
const identified = `
global:
  auth: {enabled: true, rules: [{subjects: ["system:serviceaccount:shop:*"], services: [iidy], allow: [read]}]}
`

// A change of the rules, here one to all services, changes the ConfigMap and nothing else, so that no pod is replaced.
func TestAChangeOfThePolicyReplacesNoPod(t *testing.T) {
	t.Parallel()
	before := render(t, umbrella, identified)
	after := render(t, umbrella, strings.ReplaceAll(identified, "[iidy]", "["+strings.Join(targets.Names(), ", ")+"]"))
	for name := range before {
		same := reflect.DeepEqual(before[name].plain, after[name].plain)
		if same == (name == "ConfigMap/rowlock-auth") {
			t.Errorf("%s: it stays the same: %t", name, same)
		}
	}
}

// One service may ask for tokens when all others do not, or be the only one that does not. Only who asks has a way out
// to the API server.
func TestAuthIsSwitchedOneByOne(t *testing.T) {
	t.Parallel()
	others := slices.DeleteFunc(targets.Names(), func(name string) bool { return name == targets.Pyggpot })
	for values, want := range map[string][]string{
		identified + "pyggpot: {auth: {enabled: false}}":                                        others,
		strings.Replace(identified, "enabled: true, ", "", 1) + "iidy: {auth: {enabled: true}}": {"iidy"},
	} {
		all := render(t, umbrella, values)
		for _, name := range targets.Names() {
			asks := slices.Contains(want, name)
			if got := environment(t, all, "rowlock-"+name)["AUTH"] == "token"; got != asks {
				t.Errorf("%s: %s asks for tokens: %t, want %t", values, name, got, asks)
			}

			out := get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+name).Spec.Egress
			if got := strings.Contains(raw(t, out), `"port":443`); got != asks {
				t.Errorf("%s: %s has a way to the API server: %t, want %t", values, name, got, asks)
			}
		}
	}
}

// An installation gets policies, an upgrade of a release without them does not, and a value decides for both. (That an
// upgrade keeps those that there are takes a cluster: lab/e2e.)
func TestPoliciesOfAnInstallationAndAnUpgrade(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values, upgrade string
		want            []string
	}{
		{"", "", targets.Names()},
		{"", "--is-upgrade", nil},
		{"global: {networkPolicy: {enabled: true}}", "--is-upgrade", targets.Names()},
		{"global: {networkPolicy: {enabled: false}}", "", nil},
		{"iidy: {networkPolicy: {enabled: true}}", "--is-upgrade", []string{"iidy"}},
		{"iidy: {networkPolicy: {enabled: true}}\nglobal: {networkPolicy: {enabled: false}}", "", []string{"iidy"}},
	} {
		all := render(t, umbrella, c.values, strings.Fields(c.upgrade)...)
		for _, service := range targets.Names() {
			_, found := all["NetworkPolicy/rowlock-"+service]
			if want := slices.Contains(c.want, service); found != want {
				t.Errorf("%s %s: %s has a policy: %t, want %t", c.values, c.upgrade, service, found, want)
			}
		}
	}
}

// Every rule for a way out names its peers: Kubernetes takes a rule without any for all.
func TestPoliciesNameTheirPeers(t *testing.T) {
	t.Parallel()
	together, none := render(t, umbrella, identified), render(t, alone, identified+"networkPolicy: {apiServerTo: []}")
	for _, all := range []objects{together, none} {
		for name, o := range all {
			policy, ok := o.typed.(*networking.NetworkPolicy)
			if !ok {
				continue
			}
			for _, rule := range policy.Spec.Egress {
				if len(rule.To) == 0 {
					t.Errorf("%s: a way out %s", name, raw(t, rule))
				}
			}
		}
	}
}

// matches reports whether a selector finds a pod with these labels.
func matches(t *testing.T, selector *meta.LabelSelector, of map[string]string) bool {
	t.Helper()
	found, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return found.Matches(labels.Set(of))
}

// admits reports whether the policies let a pod of the release's namespace reach a port of another, as Kubernetes reads
// them: a pod that no policy selects is open, any other takes what one of the policies names.
func admits(t *testing.T, all objects, from, to map[string]string, port string) bool {
	t.Helper()
	open := true

	for _, o := range all {
		policy, ok := o.typed.(*networking.NetworkPolicy)
		if !ok || !matches(t, &policy.Spec.PodSelector, to) {
			continue
		}
		open = false
		for _, rule := range policy.Spec.Ingress {
			toPort := func(p networking.NetworkPolicyPort) bool { return p.Port.String() == port }
			fromPod := func(peer networking.NetworkPolicyPeer) bool {
				return peer.PodSelector != nil && peer.NamespaceSelector == nil && matches(t, peer.PodSelector, from)
			}
			if slices.ContainsFunc(rule.Ports, toPort) && slices.ContainsFunc(rule.From, fromPod) {
				return true
			}
		}
	}
	return open
}

// The check reaches the APIs of all services, and no more of them, though no policy names it; without it no policy is
// made for it. A service without a policy stays open to all.
func TestTheCheckPassesThePolicies(t *testing.T) {
	t.Parallel()
	values := valuesOfEach(`%[1]s: {networkPolicy: {from: [{podSelector: {matchLabels: {app: gateway}}}],
  internalFrom: [{podSelector: {matchLabels: {app: %[2]s}}}]}}`)
	const open = "--set=pyggpot.networkPolicy.enabled=false"
	with, without := render(t, umbrella, values, open), render(t, umbrella, values, open, "--set=test.enabled=false")
	check := get[core.Pod](t, with, "Pod/rowlock-check").Labels
	other := map[string]string{"rowlock.dev/client": "true"}

	for _, service := range targets.All() {
		pod := podTemplate(with[deployment+"-"+service.Name])
		free := service.Name == targets.Pyggpot
		for _, port := range pod.Spec.Containers[0].Ports {
			api := port.Name != "admin"
			if got := admits(t, with, check, pod.Labels, port.Name); got != (api || free) {
				t.Errorf("%s: port %s admits the check: %t", service.Name, port.Name, got)
			}
			if got := admits(t, with, other, pod.Labels, port.Name); got != free {
				t.Errorf("%s: port %s admits another pod: %t", service.Name, port.Name, got)
			}
			if got := admits(t, without, check, pod.Labels, port.Name); got != free {
				t.Errorf("%s: port %s admits a check that is not run: %t", service.Name, port.Name, got)
			}
		}
	}
}
