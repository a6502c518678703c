//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// autoscaling: under load counts goes from two replicas to at least four, an upgrade leaves them alone, and afterwards it goes back to two.
// No request fails, and the sums are exact.
func (s *story) autoscaling(t *testing.T) {
	const most = 4
	began := time.Now()
	busy := startLoads(t, s.settings, 400, 16, "counts")
	eventually(t, 3*time.Minute, func() error {
		if n := s.ready(t, "counts"); n < most {
			return fmt.Errorf("%d replicas are ready", n)
		}
		return nil
	})
	node, err := command(t.Context(), "", "kubectl", "top", "node")
	t.Logf("%d replicas after %.0f s; the node: %s %v", most, time.Since(began).Seconds(), node, err)

	deployment := func() apps.DeploymentSpec { return fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec }
	before := *deployment().Replicas
	if _, err := command(t.Context(), "", s.helms[0], append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"},
		s.values("counts.podAnnotations.upgrade=while-scaled")...)...); err != nil {
		t.Fatal(err)
	}
	if after := *deployment().Replicas; after < most {
		t.Errorf("the upgrade took replicas away from the autoscaler: there were %d, there are %d", before, after)
	}
	wantFlawless(t, stopLoads(t, busy), 5_000)

	eventually(t, 3*time.Minute, func() error {
		if n := len(s.pods(t, "counts")); n != 2 {
			return fmt.Errorf("%d replicas are left", n)
		}
		return nil
	})
	t.Logf("up and down again in %.0f s", time.Since(began).Seconds())
}

// upgrade: a new version of every service, under load, by the other Helm. Nothing fails.
func (s *story) upgrade(t *testing.T) {
	old := map[string]bool{}
	for _, pod := range s.pods(t) {
		old[pod.Name] = true
	}
	loads := startLoads(t, s.settings, 50, 8, s.services...)
	var more []string
	for _, row := range services() {
		more = append(more, row.name+".config.LOG_LEVEL=debug", row.name+".podAnnotations.upgrade=done")
	}
	args := append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, s.values(more...)...)
	if _, err := command(t.Context(), "", s.helms[1], args...); err != nil {
		t.Fatal(err)
	}
	// Until the last of the old ones has ended, too.
	eventually(t, time.Minute, func() error {
		for _, pod := range fetch[core.PodList](t, "pods", "--selector=app.kubernetes.io/instance="+release).Items {
			if old[pod.Name] {
				return fmt.Errorf("%s is still there", pod.Name)
			}
		}
		return nil
	})
	wantFlawless(t, stopLoads(t, loads), 500)
	for _, pod := range s.pods(t) {
		if pod.Annotations["upgrade"] != "done" {
			t.Errorf("%s is of the old version", pod.Name)
		}
	}
}
