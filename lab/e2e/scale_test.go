//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// autoscaling loads counts until it has at least four replicas instead of two. An
// upgrade keeps them, and after the load there are two again. The upgrade also lets
// payments ask for tokens. No request fails, and the sums are exact.
func (s *story) autoscaling(t *T) {
	const (
		most = 4
		// The share of the cluster's CPUs that our pods may use.
		highest = 0.8
		// Requests a second of one load, and how many loads there may be.
		rate      = 300
		mostLoads = 4
	)
	// During the upgrade the autoscaler must not remove replicas.
	shrink := func(policy string) {
		must(t, "patch", "hpa", "rowlock-counts", "--patch",
			`{"spec":{"behavior":{"scaleDown":{"selectPolicy":"`+policy+`"}}}}`)
	}
	shrink("Disabled")
	if _, err := s.cpu(t.Context()); err != nil {
		t.Fatalf("there are no metrics of the CPUs, for this test and for the autoscaler; is there a metrics-server? %v", err)
	}
	began := time.Now()
	used := sample(t, 5*time.Second, s.cpu)
	var busy []*load
	grown := func() bool {
		// A look loads the node as well: few of them.
		const limit = 40 * time.Second
		for began := time.Now(); time.Since(began) < limit && t.Context().Err() == nil; time.Sleep(2 * time.Second) {
			if s.ready(t, "counts") >= most {
				return true
			}
		}
		return false
	}
	// How much load is needed depends on the machine.
	for busy = startLoads(t, s.settings, rate, 16, "counts"); !grown(); {
		if len(busy) == mostLoads {
			t.Fatalf("%d replicas are ready, with %d requests a second", s.ready(t, "counts"), mostLoads*rate)
		}
		busy = append(busy, startLoads(t, s.settings, rate, 16, "counts")...)
	}
	t.Logf("%d replicas are ready after %.0f s, by %d requests a second", most, time.Since(began).Seconds(),
		rate*len(busy))

	// Some samples of the load alone, without pods that start.
	used.more(t, 2)
	pods := used.stop()
	t.Logf("the pods' share of the CPUs from the start of the load on, every 5 s: %.2f", pods)
	if slices.Max(pods) >= highest {
		t.Errorf("the pods use %.2f of the CPUs; this load must keep them below %.2f", pods, highest)
	}

	// Payments asks for tokens from this upgrade on, while clients repeat what they have paid.
	paying := startLoads(t, s.settings, 30, 8, s.only(services.Payments)...)
	s.switched = true
	deployment := func() apps.DeploymentSpec { return fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec }
	before := *deployment().Replicas
	values := s.values("counts.podAnnotations.upgrade=while-scaled",
		"counts.autoscaling.behavior.scaleDown.selectPolicy=Disabled")
	run(t, "", s.helms[0], append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, values...)...)
	if after := *deployment().Replicas; after < before {
		t.Errorf("the upgrade removed replicas that the autoscaler had added: there were %d, there are %d", before, after)
	}
	wantFlawless(t, stopLoads(t, busy), 500)
	wantFlawless(t, stopLoads(t, paying), 100)

	shrink("Max")
	eventually(t, 2*time.Minute, func() error {
		if n := len(s.pods(t, "counts")); n != 2 {
			return fmt.Errorf("%d replicas are left", n)
		}
		return nil
	})
	t.Logf("up and down again in %.0f s", time.Since(began).Seconds())
}

// upgrade rolls out a new version of every service by the other Helm, under load, while
// the callers' token is replaced. No request fails. Payments of the earlier revision work
// beside new ones, on their schema.
func (s *story) upgrade(t *T) {
	if s.earlier == "" {
		t.Log("NOT CHECKED: the upgrade from payments of an earlier revision, because its image is not there")
	}
	old := map[string]bool{}
	for _, pod := range s.pods(t) {
		old[pod.Name] = true
	}
	open := sample(t, 2*time.Second, s.connections)
	rotation := s.rotate(t, 50, 8)
	run(t, "", s.helms[1], append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, s.values()...)...)
	// Until the last of the old replicas has ended.
	eventually(t, time.Minute, func() error {
		for _, pod := range s.allPods(t, "app.kubernetes.io/instance="+release) {
			if old[pod.Name] {
				return fmt.Errorf("%s is still there", pod.Name)
			}
		}
		return nil
	})
	connections := open.stop()
	wantFlawless(t, s.stop(t, rotation), 500)
	if len(connections) == 0 {
		t.Fatal("the connections could not be counted")
	}
	t.Logf("connections of all services: %.0f at most, the chart states %d", slices.Max(connections), s.budget)
	if int(slices.Max(connections)) > s.budget {
		t.Errorf("%.0f connections were open, and the chart says that there are %d at most", slices.Max(connections),
			s.budget)
	}
	// No value says so: the upgrade has found them.
	policies := fetch[networking.NetworkPolicyList](t, "networkpolicies", "--selector=app.kubernetes.io/instance="+release)
	if len(policies.Items) != len(s.rows) {
		t.Errorf("after the upgrade there are %d NetworkPolicies for %d services", len(policies.Items), len(s.rows))
	}
	for _, pod := range s.pods(t) {
		if pod.Annotations["version"] == "earlier" {
			t.Errorf("%s is of the old version", pod.Name)
		}
	}
	for _, row := range s.rows {
		if row.Name == services.Payments {
			tourOf(t, row)
		}
	}
}
