//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// releases leads the release through an operator's week, under one load on every service, in which no request may fail:
//
//   - an upgrade from the README's values to those of the story, by the other Helm: callers need a token from then on;
//   - more load makes the autoscaler add replicas of counts, which each further step keeps;
//   - an upgrade to the next release, whose schemas are newer;
//   - a rollback, begun for one service by the runbook's command for a quick one, after which the replicas of the
//     release before start on the newer schemas;
//   - the upgrade again;
//   - new passwords for the database.
//
// Meanwhile the callers' token is replaced.
func (s *story) releases(t *T) {
	open, used := sample(t, 2*time.Second, s.connections), sample(t, 5*time.Second, s.cpu)
	rotation := s.rotate(t, 50, 8)
	most := s.budget
	keep := "counts.autoscaling.behavior.scaleDown.selectPolicy=Disabled" // until shrunk
	s.upgrade(t, s.helms[1], s.tag, keep)
	most = max(most, s.budget)
	s.grow(t, &rotation, used)
	revision := strings.TrimSpace(must(t, "get", "secrets", "--selector=owner=helm,status=deployed,name="+release,
		"-o", "jsonpath={.items[*].metadata.labels.version}"))
	before := s.schemas(t)
	if s.next == "" {
		t.Log("NOT CHECKED: an upgrade to newer schemas and the way back, because the images of a next release are not there")
	} else {
		s.upgrade(t, s.helms[0], s.next, keep)
		newer := s.schemas(t)
		for service, version := range newer {
			if version <= before[service] {
				t.Errorf("the schema of %s had the version %d, and has %d after the upgrade", service, before[service], version)
			}
		}
		s.quickly(t)
		run(t, "", s.helms[1], "rollback", release, revision, "--namespace", string(s.place), "--wait", "--timeout=3m")
		s.wantRelease(t, s.tag)
		if back := s.schemas(t); fmt.Sprint(back) != fmt.Sprint(newer) {
			t.Errorf("the rollback changed the schemas' versions from %v to %v", newer, back)
		}
		s.upgrade(t, s.helms[0], s.next, keep)
	}
	s.passwords(t)
	if n := len(s.pods(t, services.Counts)); n < scaled {
		t.Errorf("an upgrade has removed replicas that the autoscaler had added: %d are left", n)
	}
	connections := open.stop()
	wantFlawless(t, s.stop(t, rotation), 500)
	s.newSessions(t)
	if len(connections) == 0 {
		t.Fatal("the connections could not be counted")
	}
	t.Logf("connections of all services: %.0f at most, the chart states %d", slices.Max(connections), most)
	if int(slices.Max(connections)) > most {
		t.Errorf("%.0f connections were open, and the chart says that there are %d at most", slices.Max(connections), most)
	}
	// No value says so: the upgrades have found them.
	policies := fetch[networking.NetworkPolicyList](t, "networkpolicies", "--selector=app.kubernetes.io/instance="+release)
	if len(policies.Items) < len(s.rows) {
		t.Errorf("after the upgrades there are %d NetworkPolicies for %d services", len(policies.Items), len(s.rows))
	}
}

// upgrade upgrades to the images of a tag by one of the two Helms, with Jobs that migrate, and checks what runs then.
func (s *story) upgrade(t *T, helm, tag string, more ...string) {
	t.Helper()
	began := time.Now()
	values := append(s.values(append(more, "global.migrations.mode=job")...), "--set-string=global.image.tag="+tag)
	out := run(t, "", helm, append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, values...)...)
	t.Logf("upgraded to %s in %.1f s", tag, time.Since(began).Seconds())
	s.readNotes(t, out)
	s.limit(t, out)
	s.wantRelease(t, tag)
}

// quickly begins a rollback of iidy by the runbook's command for one in a hurry, with the image that there is.
func (s *story) quickly(t *T) {
	t.Helper()
	args := documentedUpgrade(t, "../../docs/runbook.md", "## In a cluster: a rollback has to be quick")
	for i, arg := range args {
		args[i] = strings.Replace(arg, "tag=0.1.0", "tag="+s.tag, 1)
	}
	run(t, "", s.helms[1], args...)
	iidy := fetch[apps.Deployment](t, "deployment", "rowlock-iidy").Spec
	if image := iidy.Template.Spec.Containers[0].Image; iidy.MinReadySeconds != 0 || !strings.HasSuffix(image, ":"+s.tag) {
		t.Errorf("the runbook's quick rollback leaves iidy with %s and %d s", image, iidy.MinReadySeconds)
	}
}

// wantRelease demands that the replicas are of a tag, and that one Job of that tag has migrated each schema.
func (s *story) wantRelease(t *T, tag string) {
	t.Helper()
	ready := map[string]int{}
	for _, pod := range s.pods(t) {
		if strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+tag) {
			ready[pod.Labels["app.kubernetes.io/name"]+"/"+pod.Labels[component]]++
		}
	}
	// Replicas do not wait for a Job where the schema is newer already.
	must(t, "wait", "--for=condition=Complete", "jobs", "--selector=app.kubernetes.io/instance="+release, "--timeout=1m")
	jobs := fetch[batch.JobList](t, "jobs", "--selector=app.kubernetes.io/instance="+release).Items
	for _, row := range s.rows {
		for _, command := range row.Commands() {
			if n := ready[row.Name+"/"+command]; n < 2 {
				t.Errorf("%d replicas of %s %s are of %s: %v", n, row.Name, command, tag, ready)
			}
		}
		migrated := slices.ContainsFunc(jobs, func(job batch.Job) bool {
			return job.Labels["app.kubernetes.io/name"] == row.Name && job.Status.Succeeded > 0 &&
				strings.HasSuffix(job.Spec.Template.Spec.Containers[0].Image, ":"+tag)
		})
		if !migrated {
			t.Errorf("no Job of %s has migrated %s", tag, row.Name)
		}
	}
}

// wantGone waits until no replica is ending.
func (s *story) wantGone(t *T) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		for _, pod := range s.allPods(t, "app.kubernetes.io/instance="+release) {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("%s is still there", pod.Name)
			}
		}
		return nil
	})
}

// schemas returns the version of each service's schema.
func (s *story) schemas(t *T) map[string]int {
	t.Helper()
	versions := map[string]int{}
	for _, row := range s.rows {
		history := row.HistorySchema
		if history == "" {
			history = row.Name
		}
		out, err := s.query(t.Context(), "SELECT max(version_id) FROM "+history+".goose_db_version")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if _, err := fmt.Sscan(out, &n); err != nil {
			t.Fatalf("%s: %v in %q", row.Name, err, out)
		}
		versions[row.Name] = n
	}
	return versions
}

// scaled is how many replicas counts has under load.
const scaled = 4

// grow adds load on counts until the autoscaler has added replicas.
func (s *story) grow(t *T, r *rotation, used *sampler) {
	t.Helper()
	const (
		// The share of the cluster's CPUs that our pods may use.
		highest = 0.8
		// Requests a second of one load more, and how many of them there may be.
		rate, mostLoads = 300, 4
	)
	if _, err := s.cpu(t.Context()); err != nil {
		t.Fatalf("there are no metrics of the CPUs, for this test and for the autoscaler; is there a metrics-server? %v", err)
	}
	grown := func() bool {
		// A look loads the node as well: few of them.
		const limit = 40 * time.Second
		for began := time.Now(); time.Since(began) < limit && t.Context().Err() == nil; time.Sleep(time.Second) {
			if s.ready(t, services.Counts) >= scaled {
				return true
			}
		}
		return false
	}
	began := time.Now()
	// How much load is needed depends on the machine.
	for loads := 1; ; loads++ {
		r.loads = append(r.loads, startLoads(t, s.settings, rate, 16, services.Counts)...)
		if grown() {
			t.Logf("%d replicas of counts are ready after %.0f s, by %d requests a second more", scaled,
				time.Since(began).Seconds(), loads*rate)
			break
		}
		if loads == mostLoads {
			t.Fatalf("%d replicas of counts are ready, with %d requests a second", s.ready(t, services.Counts), loads*rate)
		}
	}
	pods := used.stop()
	t.Logf("the pods' share of the CPUs from the start of the load on, every 5 s: %.2f", pods)
	if len(pods) == 0 || slices.Max(pods) >= highest {
		t.Errorf("the pods use %.2f of the CPUs; this load must keep them below %.2f", pods, highest)
	}
}

// shrunk lets the autoscaler remove the replicas that the load had needed.
func (s *story) shrunk(t *T) {
	must(t, "patch", "hpa", "rowlock-counts", "--patch", `{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Max"}}}}`)
	eventually(t, 2*time.Minute, func() error {
		if n := *fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec.Replicas; n != 2 {
			return fmt.Errorf("counts is to have %d replicas", n)
		}
		return nil
	})
}
