package chart

import (
	"strings"
	"testing"
)

// complete turns on all that the umbrella can make.
const complete = signals + `
global:
  commonLabels: {team: shop, tier: one}
  commonAnnotations: {contact: shop, note: one}
  podLabels: {pod: "1", tier: two}
  podAnnotations: {seen: "yes"}
  migrations: {mode: job}
  serviceMonitor: {enabled: true, labels: {team: metrics}}
  auth: {enabled: true, rules: [{subjects: ["*"], services: [counts], allow: [read]}]}
counts:
  commonLabels: {team: counts}
  commonAnnotations: {contact: counts}
  podLabels: {pod: "2"}
  ingress: {enabled: true, hosts: [{host: counts.example}]}
  httpRoute: {enabled: true, parentRefs: [{name: gateway}]}
`

// Each object of a release has the labels and annotations that are common to all; those of a service win over those of
// the release, and those of the object over both. A pod has the labels too, and its own.
func TestEveryObjectHasTheCommonLabels(t *testing.T) {
	t.Parallel()
	for name, o := range render(t, umbrella, complete) {
		team, pod := "shop", "1"
		if strings.Contains(name, "/rowlock-counts") {
			team, pod = "counts", "2"
		}
		contact := team
		if strings.HasPrefix(name, "ServiceMonitor/") {
			team = "metrics"
		}
		want := map[string]any{
			"metadata.labels.team": team, "metadata.labels.tier": "one", "metadata.labels.app~kubernetes~io/instance": release,
			"metadata.annotations.contact": contact, "metadata.annotations.note": "one",
		}
		meta := "metadata."
		if strings.HasPrefix(name, "Deployment/") || strings.HasPrefix(name, "Job/") {
			meta = "spec.template.metadata."
			want[meta+"labels.team"] = team
			want[meta+"annotations.contact"] = nil
		}
		if meta != "metadata." || strings.HasPrefix(name, "Pod/") {
			want[meta+"labels.pod"], want[meta+"labels.tier"] = pod, "two"
			want[meta+"annotations.seen"] = "yes"
		}
		for path, value := range want {
			if got := at(o.plain, path); got != value {
				t.Errorf("%s has %v at %s, want %v", name, got, path, value)
			}
		}
	}
}

// A label that the chart sets itself is refused; where the schema is not asked, the chart's wins and is there once.
func TestLabelsOfTheChartAreItsOwn(t *testing.T) {
	t.Parallel()
	const values = `{podLabels: {app.kubernetes.io/name: other}, commonLabels: {app.kubernetes.io/instance: other}}`
	wantRefused(t, alone, values, `at '/podLabels/app.kubernetes.io~1name': got string, want null`)
	wantRefused(t, alone, values, `at '/commonLabels/app.kubernetes.io~1instance': got string, want null`)
	labels := at(render(t, alone, values, "--skip-schema-validation")[deployment].plain, "spec.template.metadata.labels")
	if at(labels, "app~kubernetes~io/name") != "service" || at(labels, "app~kubernetes~io/instance") != release {
		t.Errorf("the pod's labels are %v", labels)
	}
}
