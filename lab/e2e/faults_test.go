//go:build e2e

package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// everyReplica demands that requests through the Service reach all replicas of each
// service, by each replica's own metrics.
func (s *story) everyReplica(t *T) {
	before := map[string]float64{}
	for _, pod := range s.pods(t) {
		if pod.Labels[component] == "serve" {
			before[pod.Name] = metric(t, pod.Name, served)
		}
	}

	for try := 0; len(before) > 0; try++ {
		if try == 3 {
			t.Errorf("no request reaches %v", before)
			break
		}
		s.check(t, s.helms[try%len(s.helms)]) // 100 increases at once make +100, over all replicas
		for name, was := range before {
			if metric(t, name, served) > was {
				delete(before, name)
			}
		}
	}
}

// workload returns the service and the command of a replica, such as events/work.
func workload(pod core.Pod) string {
	return pod.Labels["app.kubernetes.io/name"] + "/" + pod.Labels[component]
}

// ready returns how many of these replicas are ready, by workload.
func ready(pods []core.Pod) map[string]int {
	ready := map[string]int{}
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == core.PodReady && c.Status == core.ConditionTrue {
				ready[workload(pod)]++
			}
		}
	}
	return ready
}

const served = "http_server_request_duration_seconds_count"

// metric returns the sum of a metric of a replica over its labels.
func metric(t *T, pod, name string) (sum float64) {
	t.Helper()
	metrics, err := t.read(t.Context(), fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9090/proxy/metrics", t.place, pod))
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile(`(?m)^` + name + `\{.*\} (\S+)$`)
	for _, sample := range samples.FindAllStringSubmatch(string(metrics), -1) {
		n, err := strconv.ParseFloat(sample[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// steadiness describes, a line for each replica, what must not change while the database restarts.
func (s *story) steadiness(t *T) string {
	t.Helper()
	var b strings.Builder
	for _, pod := range s.pods(t) {
		for _, c := range pod.Status.Conditions {
			if c.Type == core.PodReady {
				_, _ = fmt.Fprintf(&b, "%s ready %s since %s, restarts %d\n",
					pod.Name, c.Status, c.LastTransitionTime, pod.Status.ContainerStatuses[0].RestartCount)
			}
		}
	}
	return b.String()
}

// databaseRestarts restarts the database under load. No replica restarts or stops
// being ready, nothing acknowledged is lost, and everything works afterwards.
func (s *story) databaseRestarts(t *T) {
	eventually(t, 2*time.Minute, func() error {
		pods := s.pods(t, targets.Counts)
		if n := ready(pods)["counts/serve"]; n != 2 || len(pods) != 2 {
			return fmt.Errorf("counts has %d replicas, and %d of them are ready", len(pods), n)
		}
		return nil
	})
	before := s.steadiness(t)
	loads := startLoads(t, s.settings, 20, 8, s.services...)
	restarts := func() int32 {
		return fetch[core.Pod](t, "/api/v1", "pods/postgres-0", "").Status.ContainerStatuses[0].RestartCount
	}
	was := restarts()
	stopped := time.Now()
	// The session may end with the server; what is checked is that the server restarts.
	_, ended := t.kubectl(t.Context(), "exec", "postgres-0", "--", "sh", "-c", "kill -INT 1")
	eventually(t, time.Minute, func() error {
		if restarts() == was {
			return fmt.Errorf("the database did not restart; kill: %w", cmp.Or(ended, errors.New("sent")))
		}
		_, err := s.query(t.Context(), "SELECT 1")
		return err
	})
	away := time.Since(stopped)
	t.Logf("the database was away for %.1f s", away.Seconds())
	s.works(t, s.helms[0]) // again, while the load goes on
	for _, r := range stopLoads(t, loads) {
		if r.Fault != "" {
			t.Errorf("%s: %s", r.Service, r.Fault)
		}
	}

	// Readiness outlasts 10 s without a database (platform/httpserver). When a server takes longer it may change, once.
	after := s.steadiness(t)
	if away > 9*time.Second {
		t.Log("NOT CHECKED: whether readiness stays, because the database was away for longer than is promised")
		since := regexp.MustCompile(`since .*,`)
		before, after = since.ReplaceAllString(before, ""), since.ReplaceAllString(after, "")
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			t.Errorf("before\n%s\nafter\n%s", before, after)
			break
		}
	}
}

// works waits until `helm test` succeeds.
func (s *story) works(t *T, helm string) {
	t.Helper()
	eventually(t, 90*time.Second, func() error {
		_, err := command(t.Context(), "", helm, "test", release, "--namespace", string(s.place), "--timeout=1m")
		return err
	})
}

// podDeleted deletes a replica of each workload without a grace period, under load.
// At most what was in flight there is lost.
func (s *story) podDeleted(t *T) {
	const clients = 8
	loads := startLoads(t, s.settings, 50, clients, s.services...)
	pods, deleted := s.pods(t), map[string]string{}
	for _, pod := range pods {
		deleted[workload(pod)] = pod.Name
	}
	must(t, append([]string{"delete", "pods", "--grace-period=0", "--force", "--wait=false"},
		slices.Collect(maps.Values(deleted))...)...)

	before := ready(pods)
	eventually(t, time.Minute, func() error {
		now := ready(s.pods(t))
		for workload, n := range before {
			if now[workload] < n {
				return fmt.Errorf("of %s are %d replicas ready, and were %d", workload, now[workload], n)
			}
		}
		return nil
	})
	for _, r := range stopLoads(t, loads) {
		if r.Fault != "" || r.Failed() > clients || r.Acknowledged < 100 {
			t.Errorf("the load of %s by %d clients met %+v", r.Service, clients, r)
		}
	}
}
