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
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	want := []string{"Pod/rowlock-check", "NetworkPolicy/rowlock-check"}
	for _, w := range workloads() {
		want = append(want, "Deployment/"+w, "PodDisruptionBudget/"+w, "HorizontalPodAutoscaler/"+w)
	}
	for _, s := range services.All() {
		name := "rowlock-" + s.Name
		want = append(want, "ConfigMap/"+name, "Service/"+name, "ServiceAccount/"+name, "NetworkPolicy/"+name)
		if s.InternalPath != "" {
			want = append(want, "Service/"+name+"-internal")
		}
		if s.Name == services.Pyggpot {
			want = append(want, "Service/"+name+"-headless")
		}
	}
	slices.Sort(want)
	all := render(t, umbrella, "")
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
}

// Every pod is restricted and drains before it ends, and its Deployment, autoscaler and disruption budget fit together.
func TestEveryPodIsRestrictedAndDrains(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, "")
	for _, w := range workloads() {
		most := int32(3)
		if w == "rowlock-counts" {
			most = 4
		}
		d := get[apps.Deployment](t, all, "Deployment/"+w).Spec
		pod, c := d.Template.Spec, d.Template.Spec.Containers[0]
		restricted(t, w, pod)
		grace, update := *pod.TerminationGracePeriodSeconds, d.Strategy.RollingUpdate
		hpa := get[autoscaling.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler/"+w).Spec
		pdb := get[policy.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+w).Spec
		for demand, holds := range map[string]bool{
			"the probes look at /livez and /readyz": c.StartupProbe.HTTPGet.Path == "/livez" &&
				c.LivenessProbe.HTTPGet.Path == "/livez" && c.ReadinessProbe.HTTPGet.Path == "/readyz",
			"preStop waits": c.Lifecycle.PreStop.Sleep.Seconds == 5,
			"it may take as long to end as preStop, SHUTDOWN_DELAY and SHUTDOWN_TIMEOUT": grace > 5+3+20,
			// The budget of connections counts one that is ending.
			"no second replica ends before the first one has": int64(d.MinReadySeconds) >= grace,
			"it is spread over nodes and zones":               len(pod.TopologySpreadConstraints) == 2,
			"its CPU is asked for, its memory is limited": !c.Resources.Requests.Cpu().IsZero() &&
				!c.Resources.Limits.Memory().IsZero() && c.Resources.Limits.Cpu().IsZero(),
			"the autoscaler alone sets replicas, upgrades included": d.Replicas == nil,
			"replicas are replaced one by one": update.MaxSurge.IntValue() == 0 &&
				update.MaxUnavailable.IntValue() == 1,
			"the autoscaler scales it": hpa.ScaleTargetRef.Name == w && *hpa.MinReplicas == 2 && hpa.MaxReplicas == most &&
				*hpa.Behavior.ScaleDown.StabilizationWindowSeconds == 300,
			"by the CPU of its own container": hpa.Metrics[0].ContainerResource.Container == c.Name,
			"the disruption budget is about it": *pdb.MaxUnavailable == intstr.FromInt32(1) &&
				maps.Equal(pdb.Selector.MatchLabels, d.Selector.MatchLabels),
		} {
			if !holds {
				t.Errorf("%s: not so: %s\n%s", w, demand, raw(t, []any{d, hpa, pdb}))
			}
		}
	}
	restricted(t, "check", get[core.Pod](t, all, "Pod/rowlock-check").Spec)
}

// The pods of a default installation fit a node of two processors beside its own, and what they ask for does not move
// the autoscaler's target.
func TestDefaultRequestsAreSmall(t *testing.T) {
	t.Parallel()
	all, sum := render(t, umbrella, ""), resource.Quantity{}
	for _, w := range workloads() {
		for range 2 { // replicas
			sum.Add(*get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu())
		}
	}
	if most := resource.MustParse("1200m"); sum.Cmp(most) > 0 {
		t.Errorf("the pods ask for %s of CPU, want %s at most", &sum, &most)
	}
	target := get[autoscaling.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler/rowlock-counts").
		Spec.Metrics[0].ContainerResource.Target
	if target.Type != autoscaling.AverageValueMetricType || target.AverageValue.String() != "500m" {
		t.Errorf("the autoscaler's target is %s", raw(t, target))
	}
}

// The root file system is read-only: iidy alone has a folder for files, which holds all that SPOOL_MAX lets it keep.
// No other value may say SPOOL_MAX.
func TestSpoolHasItsVolume(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{"": "1024MiB", "iidy: {spool: {maxMiB: 3000}}": "3000MiB"} {
		all := render(t, umbrella, values)
		for _, w := range workloads() {
			pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template.Spec
			at := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.EmptyDir != nil })
			if spools := w == "rowlock-"+services.Iidy; !spools || at < 0 {
				if spools || at >= 0 {
					t.Errorf("%s: the volumes are %s", w, raw(t, pod.Volumes))
				}
				continue
			}
			volume, mounts := pod.Volumes[at], pod.Containers[0].VolumeMounts
			spoolMax := environment(t, all, w)["SPOOL_MAX"]
			most, size := resource.MustParse(strings.TrimSuffix(want, "B")), volume.EmptyDir.SizeLimit
			if spoolMax != want || size.Cmp(most) <= 0 || volume.EmptyDir.Medium != core.StorageMediumDefault {
				t.Errorf("SPOOL_MAX is %q, want %s, and the volume %s", spoolMax, want, raw(t, volume))
			}
			if !slices.ContainsFunc(mounts, func(m core.VolumeMount) bool {
				return m.Name == volume.Name && m.MountPath == "/tmp" && !m.ReadOnly
			}) {
				t.Errorf("it is mounted as %s", raw(t, mounts))
			}
		}
	}
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

// One service may have no ServiceMonitor when all others have one, or have the only one.
func TestServiceMonitorsAreSwitchedOneByOne(t *testing.T) {
	t.Parallel()
	others := slices.DeleteFunc(services.Names(), func(name string) bool { return name == services.Pyggpot })
	for values, want := range map[string][]string{
		"global: {serviceMonitor: {enabled: true}}\npyggpot: {serviceMonitor: {enabled: false}}": others,
		`{iidy: {serviceMonitor: {enabled: true}}}`:                                              {"iidy"},
	} {
		var got []string
		for name := range render(t, umbrella, values) {
			if service, ok := strings.CutPrefix(name, "ServiceMonitor/rowlock-"); ok {
				got = append(got, service)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: ServiceMonitors of %v, want %v", values, got, want)
		}
	}
}

// A Service finds the pods of its service that have the API, and no others.
func TestServicesSelectTheirPods(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, "")
	for name, o := range all {
		service, ok := o.typed.(*core.Service)
		if !ok {
			continue
		}
		var found []string
		for _, w := range workloads() {
			pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template
			if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				continue
			}
			found = append(found, w)
			port := service.Spec.Ports[0]
			leadsTo := func(p core.ContainerPort) bool { return p.Name == port.Name && p.Name == port.TargetPort.String() }
			if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, leadsTo) {
				t.Errorf("%s leads to a port that %s does not have, or to another one: %+v", name, w, port)
			}
		}
		want := strings.TrimSuffix(strings.TrimSuffix(service.Name, "-internal"), "-headless")
		if !slices.Equal(found, []string{want}) {
			t.Errorf("%s selects %v", name, found)
		}
	}
	if port := get[core.Service](t, all, "Service/rowlock-counts-internal").Spec.Ports[0].Port; port != 8081 {
		t.Errorf("the internal API is on port %d", port)
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

func TestDefaultEnvironment(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, "")
	want := map[string]string{
		"PGHOST":                      "rowlock-payments-db/host",
		"PGPORT":                      "rowlock-payments-db/port",
		"PGDATABASE":                  "rowlock-payments-db/dbname",
		"PGUSER":                      "rowlock-payments-db/username",
		"PGPASSWORD":                  "rowlock-payments-db/password",
		"DATABASE_URL":                "postgres://?sslmode=require",
		"DB_POOLER":                   "none",
		"DB_MAX_OPEN_CONNS":           "3",
		"GOMAXPROCS":                  "requests.cpu in units of 1",
		"MIGRATE_ON_START":            "true",
		"HTTP_ADDR":                   ":8080",
		"ADMIN_ADDR":                  ":9090",
		"SHUTDOWN_DELAY":              "3s",
		"SHUTDOWN_TIMEOUT":            "20s",
		"AUTH":                        "off",
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
		environment(t, all, "rowlock-events-work")["DB_MAX_OPEN_CONNS"] != "2" {
		t.Errorf("events' worker runs %v with %v", work.Args, environment(t, all, "rowlock-events-work"))
	}
	counts := get[apps.Deployment](t, all, "Deployment/rowlock-counts").Spec.Template.Spec.Containers[0]
	if counts.Image != "rowlock/count-processing-service:0.1.0" {
		t.Errorf("the image of counts is %s", counts.Image)
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

// `helm test` checks every service by its Services.
func TestEveryServiceIsChecked(t *testing.T) {
	t.Parallel()
	want := []string{"check"}
	for _, s := range services.All() {
		want = append(want, fmt.Sprintf("--%[1]s=http://rowlock-%[1]s:80", s.Name))
		if s.InternalPath != "" {
			want = append(want, fmt.Sprintf("--%[1]s-internal=http://rowlock-%[1]s-internal:8081", s.Name))
		}
	}
	got := get[core.Pod](t, render(t, umbrella, ""), "Pod/rowlock-check").Spec.Containers[0].Args
	if !slices.Equal(got, want) {
		t.Errorf("the check runs %q, want %q", got, want)
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
