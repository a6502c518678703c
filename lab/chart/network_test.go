package chart

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// An installation gets policies, an upgrade of a release without them does not, and a value decides for both. (That an
// upgrade keeps those that there are takes a cluster: lab/e2e.)
func TestPoliciesOfAnInstallationAndAnUpgrade(t *testing.T) {
	t.Parallel()
	all := targets.Names()
	none := []string{}
	for _, c := range []struct {
		values, upgrade string
		want            []string
	}{
		{"", "", all},
		{"", "--is-upgrade", none},
		{"global: {networkPolicy: {enabled: true}}", "--is-upgrade", all},
		{"global: {networkPolicy: {enabled: false}}", "", none},
		{"iidy: {networkPolicy: {enabled: true}}", "--is-upgrade", []string{"iidy"}},
		{"iidy: {networkPolicy: {enabled: true}}\nglobal: {networkPolicy: {enabled: false}}", "", []string{"iidy"}},
	} {
		got := []string{}
		for name := range render(t, umbrella, c.values, strings.Fields(c.upgrade)...) {
			if service, ok := strings.CutPrefix(name, "NetworkPolicy/rowlock-"); ok && service != "check" {
				got = append(got, service)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(got, want) {
			t.Errorf("%s %s: policies of %v, want %v", c.values, c.upgrade, got, want)
		}
	}
}

// No way out is without peers, which would be to all. That to the API server, which there is with auth, on both of its
// usual ports, leads to private addresses, not to the Internet.
func TestPoliciesNameTheirPeers(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, identified)
	private := []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}
	for _, service := range targets.Names() {
		out := []int{}
		for _, rule := range get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+service).Spec.Egress {
			blocks := []string{}
			for _, peer := range rule.To {
				if peer.IPBlock != nil {
					blocks = append(blocks, peer.IPBlock.CIDR)
				}
			}
			for _, port := range rule.Ports {
				out = append(out, port.Port.IntValue())
			}
			server := rule.Ports[0].Port.IntValue() == 443
			if len(rule.To) == 0 || server && (len(blocks) != len(rule.To) || !slices.Equal(blocks, private)) {
				t.Errorf("%s: a way out %s", service, raw(t, rule))
			}
		}
		if !slices.Equal(out, []int{53, 53, 5432, 443, 6443}) {
			t.Errorf("%s: ways out on %v", service, out)
		}
	}
	// Without peers there is no rule: Kubernetes would take it for all.
	none := render(t, alone, identified+"networkPolicy: {adminFrom: [], apiServerTo: []}")
	got := get[networking.NetworkPolicy](t, none, "NetworkPolicy/rowlock").Spec
	if len(got.Ingress) != 1 || len(got.Egress) != 2 {
		t.Errorf("metrics for none and no API server are %s", raw(t, got))
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
	open, admitted := true, false
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
			admitted = admitted || slices.ContainsFunc(rule.Ports, toPort) && slices.ContainsFunc(rule.From, fromPod)
		}
	}
	return open || admitted
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
		pod := get[apps.Deployment](t, with, "Deployment/rowlock-"+service.Name).Spec.Template
		hasPolicy := service.Name != targets.Pyggpot
		for _, port := range pod.Spec.Containers[0].Ports {
			api := port.Name != "admin"
			for what, c := range map[string][2]bool{
				"the check":                   {admits(t, with, check, pod.Labels, port.Name), api || !hasPolicy},
				"another pod":                 {admits(t, with, other, pod.Labels, port.Name), !hasPolicy},
				"the check, which is not run": {admits(t, without, check, pod.Labels, port.Name), !hasPolicy},
			} {
				if c[0] != c[1] {
					t.Errorf("%s: port %s admits %s: %t, want %t", service.Name, port.Name, what, c[0], c[1])
				}
			}
		}
	}
}
