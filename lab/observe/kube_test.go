package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// autoscalers starts a stand-in for kube-state-metrics, since there is no Kubernetes here, and returns its address. It
// reports a Deployment and an autoscaler for each workload, by the names and labels that kube-state-metrics documents.
func autoscalers(t *testing.T) (addr string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for metric, replicas := range map[string]int{
			"horizontalpodautoscaler_status_desired_replicas": perService,
			"horizontalpodautoscaler_status_current_replicas": perService,
			"horizontalpodautoscaler_spec_min_replicas":       perService,
			"horizontalpodautoscaler_spec_max_replicas":       3 * perService,
			"deployment_status_replicas_ready":                perService,
		} {
			name := "kube_" + metric
			kind, _, _ := strings.Cut(metric, "_")
			_, _ = fmt.Fprintf(w, "# TYPE %s gauge\n", name)
			for _, s := range targets.All() {
				for _, suffix := range s.Workloads() {
					_, _ = fmt.Fprintf(w, "%s{namespace=%q,%s=%q} %d\n", name, namespace, kind,
						release+"-"+s.Name+suffix, replicas)
				}
			}
		}
	}))

	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
