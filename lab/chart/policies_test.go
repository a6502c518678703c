package chart

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	networking "k8s.io/api/networking/v1"

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
