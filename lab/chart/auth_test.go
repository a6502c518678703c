package chart

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/services"
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

// names returns those of volumes or of mounts that are for auth.
func names[V any](all []V, name func(V) string) (found []string) {
	for _, v := range all {
		if strings.HasPrefix(name(v), "auth-") {
			found = append(found, name(v))
		}
	}
	return found
}

// With auth on the replicas that serve get the policy, and a short token for the API server with the cluster's CA; the
// workers, which have no API, and the container that migrates get nothing of it.
func TestReplicasThatServeIdentifyCallers(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, identified+"  migrations: {mode: init}\n")
	want := map[string]string{
		"AUTH": "token", "AUTH_ISSUER": "https://kubernetes.default.svc.cluster.local", "AUTH_AUDIENCE": "rowlock",
		"AUTH_POLICY": "/etc/auth-policy/policy.yaml", "AUTH_CA_FILE": "/etc/auth-issuer/ca.crt",
		"AUTH_TOKEN_FILE": "/etc/auth-issuer/token",
	}
	mountName := func(m core.VolumeMount) string { return m.Name }
	for _, w := range workloads() {
		pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template.Spec
		restricted(t, w, pod)
		volumes := map[string]core.Volume{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = v
		}
		migrate, c := pod.InitContainers[0], pod.Containers[0]
		if len(authOf(migrate)) > 0 || len(names(migrate.VolumeMounts, mountName)) > 0 {
			t.Errorf("%s: the container that migrates gets %s", w, raw(t, migrate))
		}
		if strings.HasSuffix(w, "-work") {
			volumeName := func(v core.Volume) string { return v.Name }
			if len(authOf(c)) > 0 || len(names(c.VolumeMounts, mountName)) > 0 || len(names(pod.Volumes, volumeName)) > 0 {
				t.Errorf("the workers get %s", raw(t, pod))
			}
			continue
		}
		if got := authOf(c); !maps.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", w, got, want)
		}
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.Name, "auth-") && (m.MountPath != "/etc/"+m.Name || !m.ReadOnly || m.SubPath != "") {
				t.Errorf("%s: mounted as %s; a subPath would never change", w, raw(t, m))
			}
		}
		if got := names(c.VolumeMounts, mountName); !slices.Equal(got, []string{"auth-policy", "auth-issuer"}) {
			t.Errorf("%s mounts %v", w, got)
		}
		const issuer = `[{"serviceAccountToken":{"expirationSeconds":600,"path":"token"}},` +
			`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}]`
		if got := string(raw(t, volumes["auth-issuer"].Projected.Sources)); got != issuer {
			t.Errorf("%s: for the issuer it has %s", w, got)
		}
		if got := volumes["auth-policy"].ConfigMap.Name; got != "rowlock-auth" {
			t.Errorf("%s: the policy is %s", w, got)
		}
	}
}

// `helm test` calls by a token of its own account, for which there is a rule behind those of the values.
func TestTheCheckHasATokenAndARule(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, identified+"  image: {tag: '1.2'}\nevents: {enabled: false}\n")
	pod := get[core.Pod](t, all, "Pod/rowlock-check").Spec
	restricted(t, "check", pod)
	account := get[core.ServiceAccount](t, all, "ServiceAccount/"+pod.ServiceAccountName)
	if *account.AutomountServiceAccountToken {
		t.Error("a token is mounted by itself")
	}
	mount := pod.Containers[0].VolumeMounts[0]
	if want := "--token-file=" + mount.MountPath + "/token"; !slices.Contains(pod.Containers[0].Args, want) ||
		mount.Name != pod.Volumes[0].Name {
		t.Errorf("the check runs %q with %s, want %s", pod.Containers[0].Args, raw(t, mount), want)
	}
	const token = `[{"serviceAccountToken":{"audience":"rowlock","expirationSeconds":600,"path":"token"}}]`
	if got := string(raw(t, pod.Volumes[0].Projected.Sources)); got != token {
		t.Errorf("its token is %s", got)
	}
	of := slices.DeleteFunc(services.Names(), func(name string) bool { return name == services.Events })
	want := string(raw(t, []any{
		dict{"Subjects": list{"system:serviceaccount:shop:*"}, "Services": list{"iidy"}, "Allow": list{"read"}},
		dict{
			"Subjects": list{"system:serviceaccount:ns:" + account.Name}, "Services": of,
			"Allow": list{"read", "change", "administer"},
		},
	}))
	var got []any
	for _, r := range policyOf(t, all, "rowlock-auth").Rules {
		got = append(got, dict{"Subjects": r.Subjects, "Services": r.Services, "Allow": r.Allow})
	}
	if string(raw(t, got)) != want {
		t.Errorf("the policy is %s, want %s", raw(t, got), want)
	}
}

// A change of the rules, here one to all services, changes the ConfigMap and nothing else, so that no pod is replaced.
func TestAChangeOfThePolicyReplacesNoPod(t *testing.T) {
	t.Parallel()
	before := render(t, umbrella, identified)
	after := render(t, umbrella, strings.ReplaceAll(identified, "[iidy]", "["+strings.Join(services.Names(), ", ")+"]"))
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
	others := slices.DeleteFunc(services.Names(), func(name string) bool { return name == services.Pyggpot })
	for values, want := range map[string][]string{
		identified + "pyggpot: {auth: {enabled: false}}":                                        others,
		strings.Replace(identified, "enabled: true, ", "", 1) + "iidy: {auth: {enabled: true}}": {"iidy"},
	} {
		all := render(t, umbrella, values)
		var asking, ways []string
		for _, name := range services.Names() {
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

// A public issuer gets no token, and its certificate is of a public CA.
func TestAPublicIssuerGetsNoToken(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, strings.Replace(identified, "enabled: true", "enabled: true, publicIssuer: true", 1))
	pod := get[apps.Deployment](t, all, "Deployment/rowlock-payments").Spec.Template.Spec
	env := authOf(pod.Containers[0])
	_, ca := env["AUTH_CA_FILE"]
	_, token := env["AUTH_TOKEN_FILE"]
	if ca || token || env["AUTH"] != "token" || strings.Contains(string(raw(t, pod)), "serviceAccountToken") {
		t.Errorf("the replica is %s", raw(t, pod))
	}
}

// A service alone has a policy of its own, and reads the same values.
func TestAuthOfOneServiceAlone(t *testing.T) {
	t.Parallel()
	all := render(t, alone, identified)
	if n := len(policyOf(t, all, "rowlock-auth").Rules); n != 1 {
		t.Errorf("the policy has %d rules", n)
	}
	c := get[apps.Deployment](t, all, "Deployment/rowlock").Spec.Template.Spec.Containers[0]
	if got := authOf(c)["AUTH_ISSUER"]; got != "https://kubernetes.default.svc.cluster.local" {
		t.Errorf("the issuer is %q", got)
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
