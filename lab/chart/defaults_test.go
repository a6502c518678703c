package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// workloads returns the Deployments of a default installation.
func workloads() (names []string) {
	for _, s := range services.All() {
		for _, suffix := range s.Workloads() {
			names = append(names, "rowlock-"+s.Name+suffix)
		}
	}
	return names
}

// A plain `helm install` makes these objects.
func TestDefaultObjects(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		want := []string{"Pod/rowlock-check"}
		for _, w := range workloads() {
			want = append(want, "Deployment/"+w, "HorizontalPodAutoscaler/"+w, "PodDisruptionBudget/"+w)
		}
		for _, s := range services.All() {
			name := "rowlock-" + s.Name
			want = append(want, "ConfigMap/"+name, "Service/"+name, "ServiceAccount/"+name)
			if s.InternalPath != "" {
				want = append(want, "Service/"+name+"-internal")
			}
		}
		slices.Sort(want)
		all := render(t, helm, umbrella, "{}")
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
			t.Errorf("rendered\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for name, o := range all {
			if ns := at(o.plain, "metadata.namespace"); ns != "ns" {
				t.Errorf("%s is in the namespace %v", name, ns)
			}
			if hook := at(o.plain, "metadata.annotations.helm~sh/hook"); hook != nil && hook != "test" {
				t.Errorf("%s is a hook: %v", name, hook)
			}
		}
	})
}

// everything enables what is off by default.
const everything = `
global: {serviceMonitor: {enabled: true}}
prometheusRule: {enabled: true}
dashboards: {enabled: true}
counts: {networkPolicy: {enabled: true}}
`

func TestEveryPodIsRestrictedAndDrains(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		all := render(t, helm, umbrella, "{}")
		for _, w := range workloads() {
			d := get[apps.Deployment](t, all, "Deployment/"+w)
			restricted(t, w, d.Spec.Template.Spec)
			pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
			if c.StartupProbe.HTTPGet.Path != "/livez" || c.LivenessProbe.HTTPGet.Path != "/livez" ||
				c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("%s: the probes look elsewhere", w)
			}
			if c.Lifecycle.PreStop.Sleep.Seconds != 5 {
				t.Errorf("%s: preStop is %+v", w, c.Lifecycle.PreStop)
			}
			if grace := *pod.TerminationGracePeriodSeconds; grace <= 5+3+20 {
				t.Errorf("%s: the grace period of %d s is no longer than preStop, SHUTDOWN_DELAY and SHUTDOWN_TIMEOUT", w, grace)
			}
			// No second replica is stopped before the first one has ended, so the connection budget counts one.
			if pace, grace := int64(d.Spec.MinReadySeconds), *pod.TerminationGracePeriodSeconds; pace < grace {
				t.Errorf("%s: a new replica counts after %d s, and an old one may take %d to end", w, pace, grace)
			}
			if len(pod.TopologySpreadConstraints) != 2 {
				t.Errorf("%s: spread over %d keys", w, len(pod.TopologySpreadConstraints))
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() ||
				!c.Resources.Limits.Cpu().IsZero() {
				t.Errorf("%s: resources %+v", w, c.Resources)
			}
			if d.Spec.Replicas != nil {
				t.Errorf("%s: replicas in spite of an autoscaler", w)
			}
			if s := d.Spec.Strategy.RollingUpdate; s.MaxSurge.IntValue() != 1 || s.MaxUnavailable.IntValue() != 0 {
				t.Errorf("%s: strategy %+v", w, s)
			}
			hpa := get[autoscaling.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler/"+w).Spec
			if hpa.ScaleTargetRef.Name != w || *hpa.MinReplicas != 2 || hpa.MaxReplicas != 6 ||
				*hpa.Behavior.ScaleDown.StabilizationWindowSeconds != 300 {
				t.Errorf("%s: autoscaler %+v", w, hpa)
			}
			pdb := get[policy.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+w).Spec
			if *pdb.MaxUnavailable != intstr.FromInt32(1) || !maps.Equal(pdb.Selector.MatchLabels, d.Spec.Selector.MatchLabels) {
				t.Errorf("%s: disruption budget %+v", w, pdb)
			}
		}
		restricted(t, "check", get[core.Pod](t, all, "Pod/rowlock-check").Spec)
	})
}

// One service may have no ServiceMonitor when all others have one, or have the only one.
func TestServiceMonitorsAreSwitchedOneByOne(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		others := slices.DeleteFunc(services.Names(), func(name string) bool { return name == services.Pyggpot })
		for values, want := range map[string][]string{
			"global: {serviceMonitor: {enabled: true}}\npyggpot: {serviceMonitor: {enabled: false}}": others,
			`{iidy: {serviceMonitor: {enabled: true}}}`:                                              {"iidy"},
		} {
			var got []string
			for name := range render(t, helm, umbrella, values) {
				if service, ok := strings.CutPrefix(name, "ServiceMonitor/rowlock-"); ok {
					got = append(got, service)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: ServiceMonitors of %v, want %v", values, got, want)
			}
		}
	})
}

// restricted checks the pod security standard of that name, and that there is no token.
func restricted(t *testing.T, name string, pod core.PodSpec) {
	t.Helper()
	c := pod.Containers[0].SecurityContext
	profile := pod.SecurityContext.SeccompProfile.Type
	if !*pod.SecurityContext.RunAsNonRoot || profile != core.SeccompProfileTypeRuntimeDefault ||
		*c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
		!slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s is not restricted: %+v %+v", name, pod.SecurityContext, c)
	}
	if *pod.AutomountServiceAccountToken {
		t.Errorf("%s gets a token", name)
	}
}

// A Service finds the pods of its service that have the API, and no others.
func TestServicesSelectTheirPods(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		all := render(t, helm, umbrella, "{}")
		for name, o := range all {
			service, ok := o.typed.(*core.Service)
			if !ok {
				continue
			}
			var found []string
			for _, w := range workloads() {
				pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template
				if !contains(pod.Labels, service.Spec.Selector) {
					continue
				}
				found = append(found, w)
				for _, port := range service.Spec.Ports {
					if !slices.ContainsFunc(
						pod.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == port.TargetPort.String() },
					) {
						t.Errorf("%s leads to a port %s that %s does not have", name, port.TargetPort.String(), w)
					}
				}
			}
			if want := strings.TrimSuffix(service.Name, "-internal"); !slices.Equal(found, []string{want}) {
				t.Errorf("%s selects %v", name, found)
			}
		}
		if port := get[core.Service](t, all, "Service/rowlock-counts-internal").Spec.Ports[0].Port; port != 8081 {
			t.Errorf("the internal API is on port %d", port)
		}
	})
}

func contains(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
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
		if v.ValueFrom != nil {
			ref := v.ValueFrom.SecretKeyRef
			env[v.Name] = fmt.Sprintf("%s/%s", ref.Name, ref.Key)
			if ref.Optional != nil && *ref.Optional {
				env[v.Name] += "?"
			}
		}
	}
	return env
}

func TestDefaultEnvironment(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		all := render(t, helm, umbrella, "{}")
		want := map[string]string{
			"PGHOST":                      "rowlock-payments-db/host",
			"PGPORT":                      "rowlock-payments-db/port",
			"PGDATABASE":                  "rowlock-payments-db/dbname",
			"PGUSER":                      "rowlock-payments-db/username",
			"PGPASSWORD":                  "rowlock-payments-db/password",
			"DATABASE_URL":                "postgres://$(PGHOST):$(PGPORT)/$(PGDATABASE)?sslmode=require",
			"DB_POOLER":                   "none",
			"DB_MAX_OPEN_CONNS":           "7",
			"MIGRATE_ON_START":            "true",
			"HTTP_ADDR":                   ":8080",
			"ADMIN_ADDR":                  ":9090",
			"SHUTDOWN_DELAY":              "3s",
			"SHUTDOWN_TIMEOUT":            "20s",
			"FINGERPRINT_SECRET":          "rowlock-payments-fingerprint/current",
			"FINGERPRINT_SECRET_PREVIOUS": "rowlock-payments-fingerprint/previous?",
		}
		if got := environment(t, all, "rowlock-payments"); !maps.Equal(got, want) {
			t.Errorf("payments gets %v, want %v", got, want)
		}
		if got := environment(t, all, "rowlock-counts")["INTERNAL_HTTP_ADDR"]; got != ":8081" {
			t.Errorf("counts serves its internal API on %q", got)
		}
		work := get[apps.Deployment](t, all, "Deployment/rowlock-events-work").Spec.Template.Spec.Containers[0]
		if !slices.Equal(work.Args, []string{"work"}) ||
			environment(t, all, "rowlock-events-work")["DB_MAX_OPEN_CONNS"] != "4" {
			t.Errorf("events' worker runs %v with %v", work.Args, environment(t, all, "rowlock-events-work"))
		}
		counts := get[apps.Deployment](t, all, "Deployment/rowlock-counts").Spec.Template.Spec.Containers[0]
		if counts.Image != "rowlock/count-processing-service:0.1.0" {
			t.Errorf("the image of counts is %s", counts.Image)
		}
	})
}

// An upgrade's patch, merged as Helm 3 does (last rendering, new rendering, live object), leaves replicas as the
// autoscaler set them. Helm 4 sends the rendering alone, and does not own the fields that it lacks.
func TestUpgradeLeavesReplicasToTheAutoscaler(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		old := render(t, helm, umbrella, "{}")["Deployment/rowlock-counts"]
		next := render(t, helm, umbrella, "global: {image: {tag: next}}")["Deployment/rowlock-counts"]
		live, ok := at(map[string]any{"o": clone(t, old.plain)}, "o").(map[string]any)
		if !ok {
			t.Fatal("the rendering is no object")
		}
		spec, _ := live["spec"].(map[string]any)
		spec["replicas"] = 5
		schema, err := strategicpatch.NewPatchMetaFromStruct(apps.Deployment{})
		if err != nil {
			t.Fatal(err)
		}
		patch, err := strategicpatch.CreateThreeWayMergePatch(raw(t, old.plain), raw(t, next.plain), raw(t, live), schema,
			true)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(patch), ":next") || strings.Contains(string(patch), "replicas") {
			t.Errorf("the upgrade's patch is %s", patch)
		}
	})
}

func raw(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func clone(t *testing.T, v map[string]any) (c map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw(t, v), &c); err != nil {
		t.Fatal(err)
	}
	return c
}
