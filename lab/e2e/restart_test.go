//go:build e2e

package e2e

import (
	"fmt"
	"time"

	apps "k8s.io/api/apps/v1"
)

// ofCounts selects the replicas of counts as a release of its own.
const ofCounts = component + "=serve,app.kubernetes.io/instance=counts"

// restarted replaces the replicas of counts at the chart's own pace, minReadySeconds: auto. All replicas count, ending
// ones included, because each has connections. Another client chooses how many there are, so the budget is for two, one
// that comes before an old one goes, and one that is ending.
func (s *story) restarted(t *T) {
	wait(t, time.Minute, "condition=Available", "deployment/counts")
	old := map[string]bool{}
	for _, pod := range s.allPods(t, ofCounts) {
		old[pod.Name] = true
	}
	began := time.Now()
	s.releaseAlone(t, "upgrade", "--set=podAnnotations.upgrade=by-helm-4")
	if n := *fetch[apps.Deployment](t, "/apis/apps/v1", "deployments/counts", "").Spec.Replicas; n != 2 {
		t.Errorf("after an upgrade by Helm 4 there are %d replicas, and another client had set 2", n)
	}

	looks, replicas, ending := 0, 0, 0          // the most at once
	eventually(t, 3*time.Minute, func() error { // it takes most of one where the machine has time
		pods := s.allPods(t, ofCounts)
		left, leaving := 0, 0
		for _, pod := range pods {
			if old[pod.Name] {
				left++
			}
			if pod.DeletionTimestamp != nil {
				leaving++
			}
		}
		looks, replicas, ending = looks+1, max(replicas, len(pods)), max(ending, leaving)
		if left > 0 || len(pods) != 2 {
			return fmt.Errorf("counts has %d replicas, %d of them old, %d ending", len(pods), left, leaving)
		}
		return nil
	})
	t.Logf("counts restarts at its own pace in %.0f s: at most %d replicas of 2, and %d ending (%d looks)",
		time.Since(began).Seconds(), replicas, ending, looks)
	if replicas < 3 || replicas > 4 {
		t.Errorf("there were at most %d replicas at once, the chart expects 3 or 4", replicas)
	}
	if ending != 1 {
		t.Errorf("at most %d replicas were ending at once, the chart expects 1", ending)
	}
	run(t, "", s.helms[1], "uninstall", "counts", "--namespace", string(s.place), "--wait")
}
