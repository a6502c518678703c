//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/lab/internal/tour"
)

// operator names the module whose definitions the cluster gets; the operator itself does not run here.
const operator = "github.com/prometheus-operator/prometheus-operator"

// monitorings is the API of its definitions.
const monitorings = "/apis/monitoring.coreos.com/v1"

// watched runs the command of "Watch it" in docs/cluster.md with the operator's real
// definitions in the cluster: the API server accepts what the chart renders, and
// what the operator would look for exists. The upgrade also lets one account more call,
// which the replicas learn.
func (s *story) watched(t *T) {
	before := revisions(t)
	upgrade := documentedUpgrade(t, "../../docs/cluster.md", "## Watch it")
	run(t, "", s.helms[1], append(upgrade, s.auth(unknown)...)...)
	for _, row := range s.rows {
		s.monitored(t, row.Name)
	}
	monitors := len(fetch[monitoring.ServiceMonitorList](t, monitorings, "servicemonitors", "").Items)
	rules := len(fetch[monitoring.PrometheusRuleList](t, monitorings, "prometheusrules",
		"release=kube-prometheus-stack").Items)
	dashboards := len(fetch[core.ConfigMapList](t, "/api/v1", "configmaps", "grafana_dashboard=1").Items)
	if monitors != len(s.rows) || rules != 1 || dashboards != len(targets.All())+1 {
		t.Fatalf("%d ServiceMonitors, %d PrometheusRules, %d dashboards", monitors, rules, dashboards)
	}
	// No pod was replaced.
	if after := revisions(t); len(before) == 0 || !maps.Equal(before, after) {
		t.Errorf("the Deployments' revisions were %v, they are %v", before, after)
	}
	s.policyIsReloaded(t)
}

// revisions returns the revisions of the release's Deployments by name. A rollout makes a new one, an autoscaler does
// not.
func revisions(t *T) map[string]string {
	t.Helper()
	found := map[string]string{}
	eventually(t, time.Minute, func() error {
		for _, d := range fetch[apps.DeploymentList](t, "/apis/apps/v1", "deployments", ours).Items {
			if d.Status.ObservedGeneration < d.Generation { // the number comes before this does
				return fmt.Errorf("%s is not seen to yet", d.Name)
			}
			found[d.Name] = d.Annotations["deployment.kubernetes.io/revision"]
		}
		return nil
	})
	return found
}

// documentedUpgrade returns the arguments of the first `helm upgrade` below a page's
// heading, with this test's chart and namespace.
func documentedUpgrade(t *T, file, heading string) []string {
	t.Helper()
	_, section, _ := strings.Cut(read(t, file), "\n"+heading+"\n")
	line := strings.ReplaceAll(tour.Block(section, "sh"), "\\\n", " ")
	args := strings.Fields(line)
	if len(args) < 8 || strings.Join(args[:5], " ") != "helm upgrade rowlock charts/rowlock --namespace" {
		t.Fatalf("%s says %q under %s", file, line, heading)
	}
	args[3], args[5] = chart, string(t.place)
	return args[1:]
}

// monitored demands that a service's ServiceMonitor selects its Service by labels, with metrics behind it.
func (s *story) monitored(t *T, name string) {
	t.Helper()
	m := fetch[monitoring.ServiceMonitor](t, monitorings, "servicemonitors/"+release+"-"+name, "")
	if m.Labels["release"] != "kube-prometheus-stack" || len(m.Spec.Endpoints) != 1 ||
		m.Spec.Endpoints[0].Port != "admin" {
		t.Errorf("%s: labels %v, endpoints %+v", m.Name, m.Labels, m.Spec.Endpoints)
	}

	var selector []string
	for key, value := range m.Spec.Selector.MatchLabels {
		selector = append(selector, key+"="+value)
	}
	found := fetch[core.ServiceList](t, "/api/v1", "services", strings.Join(selector, ",")).Items
	if len(found) != 1 || len(found[0].Spec.Ports) != 1 || found[0].Spec.Ports[0].Name != m.Spec.Endpoints[0].Port {
		t.Fatalf("%s selects %d services", m.Name, len(found))
	}

	address := net.JoinHostPort(found[0].Name, strconv.Itoa(int(found[0].Spec.Ports[0].Port)))
	url := "http://" + address + m.Spec.Endpoints[0].Path
	out := must(t, "exec", "client", "--", "curl", "--silent", "--max-time", "10", url)
	if !strings.Contains(out, "rowlock_build_info{") {
		t.Errorf("%s has no metrics: %.200s", url, out)
	}
}

// defineOperator adds the definitions of ServiceMonitor and PrometheusRule to the
// cluster, of the version that the lab's types have. Those that were not defined
// before are deleted at the end.
func (s *story) defineOperator(t *T) {
	t.Helper()
	types := operator + "/pkg/apis/monitoring"
	version := run(t, "", "go", "list", "-m", "-f", "{{.Version}}", types)

	// As a dependency it would bring 200 modules for two files.
	fetched := run(t, "", "env", "-C", t.TempDir(), "GOWORK=off", "GOFLAGS=-mod=mod",
		"go", "mod", "download", "-json", operator+"@"+strings.TrimSpace(version))
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(fetched), &module); err != nil {
		t.Fatal(err)
	}

	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		name := kind + ".monitoring.coreos.com"
		if _, err := t.kubectl(t.Context(), "get", "customresourcedefinition", name); err == nil {
			continue // it was defined before
		}
		s.undo = append(s.undo, func(ctx context.Context) error {
			_, err := s.kubectl(ctx, "delete", "customresourcedefinition", name, "--ignore-not-found", "--timeout=50s")
			return err
		})
		must(t, "apply", "--server-side", "-f",
			filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml"))
		eventually(t, time.Minute, func() error { // kubectl wait fails while there is no condition at all
			_, err := t.kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=1s",
				"customresourcedefinition/"+name)
			return err
		})
	}
	// They are in force when a wrong one is refused.
	eventually(t, time.Minute, func() error {
		_, err := command(t.Context(), `
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: none}
spec: {selector: {}, endpoints: [{port: 9090}]}
`, "kubectl", "--namespace", string(s.place), "apply", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "spec.endpoints[0].port") {
			return fmt.Errorf("a port that is a number is not refused: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
