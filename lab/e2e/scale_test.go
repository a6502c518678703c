//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
)

// autoscaling: under load counts goes from two replicas to at least four, an upgrade leaves them alone, and afterwards it goes back to two.
// No request fails, and the sums are exact.
func (s *story) autoscaling(t *T) {
	const (
		most = 4
		// What the pods use of the cluster's CPUs; other programs of the machine do not count.
		highest = 0.8
		// Requests a second of one load, and how many loads there may be.
		rate      = 300
		mostLoads = 4
	)
	// During the upgrade the autoscaler must not be the one that takes replicas away.
	shrink := func(policy string) {
		must(t, "patch", "hpa", "rowlock-counts", "--patch", `{"spec":{"behavior":{"scaleDown":{"selectPolicy":"`+policy+`"}}}}`)
	}
	shrink("Disabled")
	if _, err := s.cpu(t.Context()); err != nil {
		t.Fatalf("neither this test nor the autoscaler sees a CPU's load; is there a metrics-server? %v", err)
	}
	began := time.Now()
	used := sample(t, 5*time.Second, s.cpu)
	var busy []*load
	grown := func() bool {
		// Looks belong to what the node has to bear: few of them.
		for end := time.Now().Add(40 * time.Second); time.Now().Before(end) && t.Context().Err() == nil; time.Sleep(2 * time.Second) {
			if s.ready(t, "counts") >= most {
				return true
			}
		}
		return false
	}
	// No more load than it takes: how much that is depends on the machine.
	for busy = startLoads(t, s.settings, rate, 16, "counts"); !grown(); {
		if len(busy) == mostLoads {
			t.Fatalf("%d replicas are ready, with %d requests a second", s.ready(t, "counts"), mostLoads*rate)
		}
		busy = append(busy, startLoads(t, s.settings, rate, 16, "counts")...)
	}
	t.Logf("%d replicas are ready after %.0f s, by %d requests a second", most, time.Since(began).Seconds(), rate*len(busy))

	// What the load takes, and not the pods that start: the upgrade comes after that.
	used.more(t, 4)
	shares := used.stop()
	pods, nodes := shares[0], shares[1]
	t.Logf("CPUs from the start of the load on, every 5 s: our pods %s; the busiest node with all that runs there %s", pods, nodes)
	if slices.Max(pods) >= highest {
		t.Errorf("the pods use %s of the CPUs; this load was to keep them below %.0f %%", pods, 100*highest)
	}

	deployment := func() apps.DeploymentSpec { return fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec }
	before := *deployment().Replicas
	values := s.values("counts.podAnnotations.upgrade=while-scaled", "counts.autoscaling.behavior.scaleDown.selectPolicy=Disabled")
	if _, err := command(t.Context(), "", s.helms[0],
		append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, values...)...); err != nil {
		t.Fatal(err)
	}
	if after := *deployment().Replicas; after < before {
		t.Errorf("the upgrade took replicas away from the autoscaler: there were %d, there are %d", before, after)
	}
	wantFlawless(t, stopLoads(t, busy), 500)

	shrink("Max")
	eventually(t, 2*time.Minute, func() error {
		if n := len(s.pods(t, "counts")); n != 2 {
			return fmt.Errorf("%d replicas are left", n)
		}
		return nil
	})
	t.Logf("up and down again in %.0f s", time.Since(began).Seconds())
}

// upgrade: a new version of every service, under load, by the other Helm. Nothing fails.
func (s *story) upgrade(t *T) {
	old := map[string]bool{}
	for _, pod := range s.pods(t) {
		old[pod.Name] = true
	}
	open := sample(t, 2*time.Second, s.connections)
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
		for _, pod := range s.allPods(t, "app.kubernetes.io/instance="+release) {
			if old[pod.Name] {
				return fmt.Errorf("%s is still there", pod.Name)
			}
		}
		return nil
	})
	connections := open.stop()[0]
	wantFlawless(t, stopLoads(t, loads), 500)
	if len(connections) == 0 {
		t.Fatal("the connections could not be counted")
	}
	t.Logf("connections of all services: %.0f at most, the chart counted with %d", slices.Max(connections), s.budget)
	if int(slices.Max(connections)) > s.budget {
		t.Errorf("%.0f connections were open, and the chart says that there are %d at most", slices.Max(connections), s.budget)
	}
	for _, pod := range s.pods(t) {
		if pod.Annotations["upgrade"] != "done" {
			t.Errorf("%s is of the old version", pod.Name)
		}
	}
}
