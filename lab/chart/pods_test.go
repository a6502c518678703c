package chart

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

const deployment = "Deployment/rowlock"

// workloads returns the Deployments of a default installation.
func workloads() (names []string) {
	for _, s := range targets.All() {
		for _, suffix := range s.Workloads() {
			names = append(names, "rowlock-"+s.Name+suffix)
		}
	}
	return names
}

// The generic chart, released alone with the umbrella's values of a service, as README.md shows it, renders the same
// pod under the release's own name.
func TestOneServiceAlone(t *testing.T) {
	t.Parallel()
	const parameters = "database.parameters=sslmode=disable"
	together := render(t, umbrella, "", "--set=global."+parameters)
	for _, service := range targets.All() {
		values, err := run(t, helm4, "", "show", "values", umbrella, "--jsonpath", "{."+service.Name+"}")
		if err != nil {
			t.Fatal(err)
		}

		name := "rowlock-" + service.Name
		got := render(t, alone, values, "--set="+parameters, "--set=fullnameOverride="+name)
		for _, w := range service.Workloads() {
			want := raw(t, podTemplate(together["Deployment/"+name+w]).Spec)
			if pod := raw(t, podTemplate(got["Deployment/"+name+w]).Spec); pod != want {
				t.Errorf("%s%s alone is\n%s\ntogether\n%s", service.Name, w, pod, want)
			}
		}
	}
}

// A name that YAML reads as a number or a truth value is a text in every object, and so is a path with a colon.
func TestNamesAreTexts(t *testing.T) {
	t.Parallel()
	all := render(t, alone, `
fullnameOverride: "true"
database: {existingSecret: "12", keys: {password: "34"}, caSecret: "56", clientCertSecret: "78", passwordFile: true}
secretEnv: {TOKEN: {existingSecret: "12", key: "34"}}
serviceAccount: {name: "56"}
migrations: {mode: init}
autoscaling: {enabled: true}
internalService: {enabled: true}
service: {headless: {enabled: true}}
ingress: {enabled: true, className: "12", hosts: [{host: a.example, paths: [{path: "/a: b #c"}]}]}
httpRoute: {enabled: true, parentRefs: [{name: "12"}]}
global:
  networkPolicy: {clientNamespaces: ["12", "on", "null"]}
  serviceMonitor: {enabled: true}
  topologySpread: {topologyKeys: ["12"]}
  auth: {enabled: true, existingConfigMap: "12"}
`, "--namespace=12")

	if path := get[networking.Ingress](t, all, "Ingress/true").Spec.Rules[0].HTTP.Paths[0].Path; path != "/a: b #c" {
		t.Errorf("the path is %s", path)
	}
	from := get[networking.NetworkPolicy](t, all, "NetworkPolicy/true").Spec.Ingress[0].From
	if name := from[len(from)-1].NamespaceSelector.MatchLabels[core.LabelMetadataName]; name != "null" {
		t.Errorf("the last namespace of callers is %s", name)
	}
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

	before, after := render(t, umbrella, ""), render(t, dir, "")
	changed := render(t, umbrella, "counts: {config: {LOG_LEVEL: debug}}")
	if got := at(after["ConfigMap/rowlock-counts"].plain, "metadata.labels.helm~sh/chart"); got != "counts-99.0.0" {
		t.Errorf("the other version is not rendered: %v", got)
	}
	for _, w := range workloads() {
		w = "Deployment/" + w
		if !reflect.DeepEqual(podTemplate(after[w]), podTemplate(before[w])) {
			t.Errorf("%s rolls for another version", w)
		}
		rolls := !reflect.DeepEqual(podTemplate(changed[w]), podTemplate(before[w]))
		if rolls != (w == deployment+"-counts") {
			t.Errorf("%s rolls for a change of counts' configuration: %t", w, rolls)
		}
	}
}

// complete turns on all that the umbrella can make.
const complete = `
global:
  commonLabels: {team: shop, tier: one}
  commonAnnotations: {contact: shop, note: one}
  podLabels: {pod: "1", tier: two}
  podAnnotations: {seen: "yes"}
  migrations: {mode: job}
  serviceMonitor: {enabled: true, labels: {team: metrics}}
  auth: {enabled: true, rules: [{subjects: ["*"], services: [counts], allow: [read]}]}
prometheusRule: {enabled: true}
dashboards: {enabled: true, labels: {grafana_dashboard: "yes"}}
counts:
  commonLabels: {team: counts}
  commonAnnotations: {contact: counts}
  podLabels: {pod: "2"}
  ingress: {enabled: true, hosts: [{host: counts.example}]}
  httpRoute: {enabled: true, parentRefs: [{name: gateway}]}
`

// Each object of a release has the labels and annotations that are common to all; a service's win over the release's,
// and the object's over both. A pod has the labels too, and its own.
func TestEveryObjectHasTheCommonLabels(t *testing.T) {
	t.Parallel()
	for name, o := range render(t, umbrella, complete) {
		team, pod := "shop", "1"
		if strings.Contains(name, "/rowlock-counts") {
			team, pod = "counts", "2"
		}
		want := map[string]any{
			"labels.team": team, "labels.tier": "one", "labels.app~kubernetes~io/instance": release,
			"annotations.contact": team, "annotations.note": "one",
		}
		if strings.HasPrefix(name, "ServiceMonitor/") {
			want["labels.team"] = "metrics"
		}

		meta := at(o.plain, "metadata")
		ofPod := map[string]any{"labels.pod": pod, "labels.tier": "two", "annotations.seen": "yes"}
		if inner := at(o.plain, "spec.template.metadata"); inner != nil {
			ofPod["labels.team"], ofPod["annotations.contact"] = team, nil
			wantMetadata(t, name+"'s pod", inner, ofPod)
		} else if strings.HasPrefix(name, "Pod/") {
			maps.Copy(want, ofPod)
		}
		wantMetadata(t, name, meta, want)
	}
}

func wantMetadata(t *testing.T, name string, metadata any, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := at(metadata, path); got != value {
			t.Errorf("%s has %v at %s, want %v", name, got, path, value)
		}
	}
}

// Another chart may depend on this one by a condition, and have globals for others of its dependencies. Only its pull
// secrets, names as Bitnami's charts have them, are for these pods too.
func TestAParentChart(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts", "rowlock"), os.DirFS(umbrella)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(parent, "Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: "+
		"[{name: rowlock, condition: rowlock.enabled, version: "+metadataOf(t, umbrella).Version+"}]}")

	const globals = `
rowlock: {enabled: true}
global:
  # Bitnami's charts
  imageRegistry: registry.example
  imagePullSecrets: [regcred]
  defaultStorageClass: fast
  security: {allowInsecureImages: true}
  compatibility: {openshift: {adaptSecurityContext: auto}}
  postgresql: {auth: {existingSecret: pg}, service: {ports: {postgresql: "5432"}}}
  # kube-prometheus-stack
  rbac: {create: true, pspAnnotations: {}}
  # Charts with the names of ours
  image: {pullPolicy: Always}
  database: {host: db}
`
	want := render(t, umbrella, "global: {imagePullSecrets: [{name: regcred}]}")
	if got := render(t, parent, globals); !reflect.DeepEqual(got, want) {
		t.Errorf("as a dependency it renders\n%s", raw(t, got))
	}
}

// A release's name may have 53 characters. The services' names follow it, and are neither cut off nor equal.
func TestLongReleaseNames(t *testing.T) {
	t.Parallel()
	const everything = "counts: {networkPolicy: {enabled: true}}\nglobal: {serviceMonitor: {enabled: true}}"
	for _, n := range []int{44, 47, 53} {
		name := strings.Repeat("r", n-4) + "-end"
		manifests, err := run(t, helm4, everything, "template", name, umbrella, "--kube-version="+kubernetes, "--values=-")
		if err != nil {
			t.Fatalf("%d characters: %v", n, err)
		}
		all, err := decode(manifests) // an error when two objects have one name
		if err != nil {
			t.Fatalf("%d characters: %v", n, err)
		}

		for id := range all {
			if _, object, _ := strings.Cut(id, "/"); len(object) > 63 {
				t.Errorf("%d characters: %s is too long", n, id)
			}
		}
		for _, w := range workloads() {
			end := strings.TrimPrefix(w, "rowlock")
			if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(id string) bool {
				return strings.HasPrefix(id, "Deployment/") && strings.HasSuffix(id, end)
			}) {
				t.Errorf("%d characters: no Deployment ends in %s", n, end)
			}
		}
	}
}
