package chart

import (
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// The values for production are one page, and say once for all services what production wants of each.
func TestValuesForProduction(t *testing.T) {
	t.Parallel()
	const lines = 60
	values := read(t, umbrella+"/values-production.yaml")
	if n := strings.Count(values, "\n"); n > lines {
		t.Errorf("they have %d lines, at most %d", n, lines)
	}
	all := renderAlike(t, umbrella, values)
	for name, pod := range podsOf(all) {
		if !strings.HasPrefix(pod.Containers[0].Image, "registry.example/") || len(pod.ImagePullSecrets) != 1 ||
			pod.PriorityClassName != "production" || len(pod.NodeSelector) != 1 {
			t.Errorf("%s lacks a setting of all pods: %s", name, raw(t, pod))
		}
		restricted(t, name, pod)
	}
	for _, w := range workloads() {
		pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template
		env := environment(t, all, w)
		for demand, holds := range map[string]bool{
			"it has the labels of all": pod.Labels["team"] == "shop",
			"the database is verified": strings.Contains(env["DATABASE_URL"], "sslmode=verify-full"),
			"another role migrates":    env["MIGRATE_ON_START"] == "false" && len(pod.Spec.InitContainers) == 0,
			"one trace of a hundred is sent": env["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" &&
				env["OTEL_TRACES_SAMPLER_ARG"] == "0.01",
			"callers need a token":          env["AUTH"] == "token" || env["AUTH"] == "" && strings.HasSuffix(w, "-work"),
			"an autoscaler makes replicas":  all["HorizontalPodAutoscaler/"+w].plain != nil,
			"it is not the owner's account": !strings.Contains(string(raw(t, pod.Spec.Containers[0])), "-owner"),
		} {
			if !holds {
				t.Errorf("%s: not so: %s\n%s", w, demand, raw(t, pod))
			}
		}
	}
	for _, name := range services.Names() {
		policy := get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+name).Spec
		for _, rule := range policy.Egress {
			for _, peer := range rule.To {
				if peer.NamespaceSelector != nil && len(peer.NamespaceSelector.MatchLabels) == 0 {
					t.Errorf("%s may reach any namespace: %s", name, raw(t, rule))
				}
			}
		}
		if all["ServiceMonitor/rowlock-"+name].plain == nil {
			t.Errorf("%s has no ServiceMonitor", name)
		}
	}
	get[core.ConfigMap](t, all, "ConfigMap/rowlock-dashboard-overview")
	if all["PrometheusRule/rowlock"].plain == nil {
		t.Error("there are no alerts")
	}

	out, err := run(t, helm4, values, "install", release, umbrella, "--dry-run=client", "--values=-")
	if err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(out, "\nNOTES:\n")
	for _, warning := range []string{"WARNING", "No token is asked", "Any pod may call", "not verified"} {
		if strings.Contains(notes, warning) {
			t.Errorf("the notes say %q:\n%s", warning, notes)
		}
	}
}
