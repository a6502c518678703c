package chart

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// podsOf returns the pods of all Deployments and Jobs and that of helm test, by the object's name.
func podsOf(all objects) map[string]core.PodSpec {
	pods := map[string]core.PodSpec{}
	for name, o := range all {
		switch o := o.typed.(type) {
		case *apps.Deployment:
			pods[name] = o.Spec.Template.Spec
		case *batch.Job:
			pods[name] = o.Spec.Template.Spec
		case *core.Pod:
			pods[name] = o.Spec
		}
	}
	return pods
}

// What global says of pods is so for all of them, those of Jobs and of helm test included. A service's own wins: key by
// key of a map, and for a list or a text where it has one.
func TestGlobalSettingsReachEveryPod(t *testing.T) {
	t.Parallel()
	pods := podsOf(render(t, umbrella, `
global:
  migrations: {mode: job}
  imagePullSecrets: [{name: common}]
  nodeSelector: {disk: ssd, zone: a}
  tolerations: [{key: spot, operator: Exists}]
  affinity: {podAntiAffinity: {}, nodeAffinity: {}}
  priorityClassName: high
  dnsConfig: {options: [{name: ndots, value: "1"}]}
  hostAliases: [{ip: 10.0.0.5, hostnames: [db]}]
  topologySpread: {topologyKeys: [rack, row], whenUnsatisfiableOf: {row: DoNotSchedule}}
iidy:
  imagePullSecrets: [{name: own}, {name: common}]
  nodeSelector: {disk: hdd}
  tolerations: [{key: own, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
  priorityClassName: low
  dnsConfig: {searches: [example]}
  hostAliases: [{ip: 10.0.0.6, hostnames: [db]}]
  topologySpread: {whenUnsatisfiable: DoNotSchedule}
`))
	// Deployments and their spread, and the rest of any pod.
	common := [2]string{
		`[rack/ScheduleAnyway row/DoNotSchedule]`,
		`[{"name":"common"}]{"disk":"ssd","zone":"a"}[{"key":"spot","operator":"Exists"}]` +
			`{"nodeAffinity":{},"podAntiAffinity":{}}high{"options":[{"name":"ndots","value":"1"}]}` +
			`[{"ip":"10.0.0.5","hostnames":["db"]}]`,
	}
	own := [2]string{
		`[rack/DoNotSchedule row/DoNotSchedule]`,
		`[{"name":"own"},{"name":"common"}]{"disk":"hdd","zone":"a"}[{"key":"own","operator":"Exists"}]` +
			`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}},"podAntiAffinity":{}}` +
			`low{"searches":["example"],"options":[{"name":"ndots","value":"1"}]}[{"ip":"10.0.0.6","hostnames":["db"]}]`,
	}
	for name, pod := range pods {
		want := common
		if strings.Contains(name, "/rowlock-iidy") {
			want = own
		}
		if strings.HasPrefix(name, "Deployment/") {
			var spreads []string
			for _, spread := range pod.TopologySpreadConstraints {
				spreads = append(spreads, spread.TopologyKey+"/"+string(spread.WhenUnsatisfiable))
			}
			if got := fmt.Sprint(spreads); got != want[0] {
				t.Errorf("%s is spread by %s, want %s", name, got, want[0])
			}
		}
		got := fmt.Sprintf("%s%s%s%s%s%s%s", raw(t, pod.ImagePullSecrets), raw(t, pod.NodeSelector), raw(t, pod.Tolerations),
			raw(t, pod.Affinity), pod.PriorityClassName, raw(t, pod.DNSConfig), raw(t, pod.HostAliases))
		if got != want[1] {
			t.Errorf("%s has\n%s\nwant\n%s", name, got, want[1])
		}
	}
	if len(pods) != len(workloads())+len(services.Names())+1 {
		t.Errorf("%d pods", len(pods))
	}
}

// Variables of global are those of every service, in one ConfigMap each or from a secret; a service's own win. An
// endpoint for traces opens the way to the collector for all.
func TestGlobalVariablesReachEveryService(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, `
global:
  config: {LOG_LEVEL: warn, LOG_FORMAT: json, MAX_BODY: 268435456, OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4317"}
  secretEnv: {OTEL_EXPORTER_OTLP_HEADERS: {existingSecret: otel, key: headers}}
iidy:
  config: {LOG_LEVEL: debug}
  secretEnv: {OTEL_EXPORTER_OTLP_HEADERS: {existingSecret: own, key: h}}
`)
	plain := render(t, umbrella, "")
	for _, w := range workloads() {
		want := environment(t, plain, w)
		maps.Copy(want, map[string]string{
			"LOG_LEVEL": "warn", "LOG_FORMAT": "json", "MAX_BODY": "268435456",
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_EXPORTER_OTLP_HEADERS": "otel/headers",
		})
		if w == "rowlock-iidy" {
			maps.Copy(want, map[string]string{"LOG_LEVEL": "debug", "OTEL_EXPORTER_OTLP_HEADERS": "own/h"})
		}
		if got := environment(t, all, w); !maps.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", w, got, want)
		}
	}
	for _, name := range services.Names() {
		out := get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+name).Spec.Egress
		if last := out[len(out)-1].Ports; last[len(last)-1].Port.IntValue() != 4318 {
			t.Errorf("%s has no way to the collector: %s", name, raw(t, out))
		}
	}
}
