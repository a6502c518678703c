package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// kubeState stands in for kube-state-metrics: there is no Kubernetes here. It
// reports an autoscaler for each workload, by the names and labels that
// kube-state-metrics documents.
type kubeState struct {
	addr string
	// wanted is how many replicas each autoscaler wants.
	wanted atomic.Int64
}

const mostReplicas = 6

// wantMostReplicas: kube-state-metrics reports that the autoscalers want their maximum.
func wantMostReplicas(t *testing.T, r *rig) func() {
	t.Helper()
	r.kube.wanted.Store(mostReplicas)
	return func() { r.kube.wanted.Store(perService) }
}

func newKubeState(t *testing.T) *kubeState {
	t.Helper()
	k := &kubeState{}
	k.wanted.Store(perService)
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	k.addr = strings.TrimPrefix(server.URL, "http://")
	return k
}

func (k *kubeState) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	metrics := []string{
		"kube_horizontalpodautoscaler_status_desired_replicas", "kube_horizontalpodautoscaler_status_current_replicas",
		"kube_horizontalpodautoscaler_spec_min_replicas", "kube_horizontalpodautoscaler_spec_max_replicas",
	}
	var workloads []string
	for _, s := range services.All() {
		for _, suffix := range s.Workloads() {
			workloads = append(workloads, s.Name+suffix)
		}
	}
	for _, metric := range metrics {
		_, _ = fmt.Fprintf(w, "# TYPE %s gauge\n", metric)
		for _, workload := range workloads {
			value := int64(perService)
			switch {
			case strings.HasSuffix(metric, "_max_replicas"):
				value = mostReplicas
			case strings.Contains(metric, "_status_"):
				value = k.wanted.Load()
			}
			_, _ = fmt.Fprintf(w, "%s{namespace=%q,horizontalpodautoscaler=%q} %d\n", metric, namespace, release+"-"+workload,
				value)
		}
	}
}
