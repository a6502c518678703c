//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// rate is how many requests a second each service gets all the time. All of it runs on a small node.
const rate = 25

// releases leads the release through an operator's week, under one load on every service, in which no request may fail:
//
//   - an upgrade from the README's values to those of the story, by the other Helm: callers need a token from then on;
//   - more load on every service, by which each of the five autoscalers adds replicas up to its maximum, where they
//     stay;
//   - an upgrade to the next release, whose schemas are newer, at the chart's own pace: all replicas that there may be
//     are replaced, within the connections that the chart counts with;
//   - the removal of those replicas by the autoscalers;
//   - a rollback, begun for one service by the runbook's command for a quick one, after which the replicas of the
//     release before start on the newer schemas;
//   - new passwords for the database.
//
// Meanwhile the callers' token is replaced. At the end the sums are exact.
func (s *story) releases(t *T) {
	rotation := s.rotate(t, rate, 8)
	used := sample(t, 5*time.Second, s.cpu)
	s.upgrade(t, s.helms[1], s.tag, s.wide()...)
	revision := strings.TrimSpace(must(t, "get", "secrets", "--selector=owner=helm,status=deployed,name="+release,
		"-o", "jsonpath={.items[*].metadata.labels.version}"))

	wantFlawless(t, stopLoads(t, s.grow(t, used)), 500)
	before := s.schemas(t)
	s.rollOut(t)
	newer := s.schemas(t)
	s.shrink(t)

	open := sample(t, 2*time.Second, s.connections)
	if s.next == "" {
		t.Log("NOT CHECKED: newer schemas and the way back, because the images of a next release are not there")
	} else {
		for service, version := range newer {
			if version <= before[service] {
				t.Errorf("the schema of %s had the version %d, and has %d after the upgrade", service, before[service], version)
			}
		}
		s.quickly(t)
		run(t, "", s.helms[1], "rollback", release, revision, "--namespace", string(s.place), "--wait", "--timeout=3m")
		rolledOut(t)
		s.wantRelease(t, s.tag)
		if back := s.schemas(t); fmt.Sprint(back) != fmt.Sprint(newer) {
			t.Errorf("the rollback changed the schemas' versions from %v to %v", newer, back)
		}
		s.shrink(t) // the autoscalers are those of before, too
	}
	s.passwords(t)
	wantFlawless(t, s.stop(t, rotation), 500)
	wantWithin(t, open, s.budget)
	s.newSessions(t)

	// No value says so: the upgrades have found them.
	policies := fetch[networking.NetworkPolicyList](t, "/apis/networking.k8s.io/v1", "networkpolicies", ours)
	if len(policies.Items) < len(s.rows) {
		t.Errorf("after the upgrades there are %d NetworkPolicies for %d services", len(policies.Items), len(s.rows))
	}
}

// rollOut upgrades every service at once, each with as many replicas as its autoscaler may make, while the pod of `helm
// test` checks them. It demands that no more connections are open than the chart states, those of migrations included,
// and that no replica was removed.
func (s *story) rollOut(t *T) {
	t.Helper()
	check := run(t, "", s.helms[0], "get", "hooks", release, "--namespace", string(s.place))
	must(t, "delete", "pod", release+"-check", "--ignore-not-found")
	open := sample(t, time.Second, s.connections)
	checked := make(chan error, 1)
	go func() {
		err := s.underWay(t.Context(), full)
		if err == nil {
			_, err = command(t.Context(), check, "kubectl", "--namespace", string(s.place), "apply", "-f", "-")
		}
		if err == nil {
			_, err = s.kubectl(t.Context(), "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s",
				"pod/"+release+"-check")
		}
		checked <- err
	}()

	s.upgrade(t, s.helms[0], cmp.Or(s.next, s.tag), append(s.wide(), "global.podAnnotations.rollout="+full)...)
	if err := <-checked; err != nil {
		t.Errorf("helm test's pod during the rollout: %v", err)
	}
	wantWithin(t, open, s.budget)
	if missing := s.missing(t); len(missing) > 0 {
		t.Errorf("the upgrade has removed replicas that autoscalers had added: %v", missing)
	}
}

// full is the annotation of the pods of the rollout at which all autoscalers are at their maximum.
const full = "full"

// underWay waits until a service's new pod of a rollout runs, for each of them.
func (s *story) underWay(ctx context.Context, rollout string) error {
	for ; ctx.Err() == nil; time.Sleep(time.Second) {
		pods, err := s.podsOf(ctx, ours)
		if err != nil {
			return err
		}

		started := map[string]bool{}
		for _, pod := range pods {
			if pod.Annotations["rollout"] == rollout && pod.Status.Phase == core.PodRunning {
				started[pod.Labels["app.kubernetes.io/name"]] = true
			}
		}
		if len(started) == len(s.rows) {
			return nil
		}
	}
	return ctx.Err()
}

// wantWithin stops a sampler of connections, and demands that there were never more than the chart states. At least
// one of each service is open all the time.
func wantWithin(t *T, open *sampler, budget int) {
	t.Helper()
	connections := open.stop()
	if len(connections) < 10 || slices.Min(connections) < float64(len(services.All())) {
		t.Fatalf("the connections were not counted: %.0f", connections)
	}
	most := slices.Max(connections)
	t.Logf("connections of all services: %.0f at most, the chart states %d (%d looks)", most, budget, len(connections))
	if int(most) > budget {
		t.Errorf("%.0f connections were open, and the chart states %d at most", most, budget)
	}
}

// rolledOut waits until all replicas are of the release that was made last. Helm 3 takes one missing for enough.
func rolledOut(t *T) {
	t.Helper()
	must(t, "rollout", "status", "deployment", "--selector="+ours, "--timeout=3m")
}

// upgrade upgrades to the images of a tag by one of the two Helms, with Jobs that migrate, and checks what runs then.
// The roles' limits are those that the notes state, set before there is more to connect.
func (s *story) upgrade(t *T, helm, tag string, more ...string) {
	t.Helper()
	began := time.Now()
	values := append(s.values(append(more, "global.migrations.mode=job")...), "--set-string=global.image.tag="+tag)
	s.limit(t, run(t, "", helm, append([]string{"upgrade", release, chart, "--dry-run=server"}, values...)...))
	out := run(t, "", helm, append([]string{"upgrade", release, chart, "--wait", "--timeout=3m"}, values...)...)
	rolledOut(t)
	t.Logf("upgraded to %s in %.1f s", tag, time.Since(began).Seconds())
	s.readNotes(t, out)
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
	iidy := fetch[apps.Deployment](t, "/apis/apps/v1", "deployments/rowlock-iidy", "").Spec
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
	must(t, "wait", "--for=condition=Complete", "jobs", "--selector="+ours, "--timeout=1m")
	jobs := fetch[batch.JobList](t, "/apis/batch/v1", "jobs", ours).Items
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
		for _, pod := range s.allPods(t, ours) {
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

// most returns how many replicas the autoscaler of each of a service's workloads may make, by the chart's defaults.
func most(service string) int {
	if service == services.Counts {
		return 4
	}
	return 3
}

// wide returns the values for autoscalers of the chart's own ranges, which remove nothing before shrink, and for
// rollouts at the chart's own pace.
func (s *story) wide() (pairs []string) {
	for _, row := range s.rows {
		pairs = append(pairs, fmt.Sprintf("%[1]s.minReadySeconds=auto,%[1]s.autoscaling.maxReplicas=%[2]d,"+
			"%[1]s.autoscaling.behavior.scaleDown.selectPolicy=Disabled", row.Name, most(row.Name)))
	}
	return pairs
}

// missing returns the services of which a workload has fewer ready replicas than its autoscaler may make.
func (s *story) missing(t *T) (names []string) {
	t.Helper()
	ready := s.ready(t)
	for _, row := range s.rows {
		for _, command := range row.Commands() {
			if ready[row.Name+"/"+command] < most(row.Name) {
				names = append(names, row.Name)
				break
			}
		}
	}
	return names
}

// grow adds load on every service until each autoscaler has added all replicas that it may, and returns the loads.
func (s *story) grow(t *T, used *sampler) (loads []*load) {
	t.Helper()
	const mostLoads = 4 // more of each service
	// Requests a second of each.
	rates := map[string]int{services.Counts: 300, services.Events: 100}
	if _, err := s.cpu(t.Context()); err != nil {
		t.Fatalf("there are no metrics of the CPUs, for this test and for the autoscaler; is there a metrics-server? %v", err)
	}
	began := time.Now()
	// How much load is needed depends on the machine.
	missing := s.missing(t)
	for n := 1; len(missing) > 0; n++ {
		if n > mostLoads {
			t.Fatalf("%v have too few replicas with %d loads more:\n%s", missing, mostLoads, must(t, "get", "hpa"))
		}
		for _, name := range missing {
			loads = append(loads, startLoads(t, s.settings, cmp.Or(rates[name], 150), 16, name)...)
		}
		// A look loads the node as well: few of them.
		const limit = 40 * time.Second
		for since := time.Now(); len(missing) > 0 && time.Since(since) < limit && t.Context().Err() == nil; {
			time.Sleep(time.Second)
			missing = s.missing(t)
		}
	}
	t.Logf("all autoscalers are at their maximum after %.0f s, by %d loads more:\n%s",
		time.Since(began).Seconds(), len(loads), must(t, "get", "hpa"))

	pods := used.stop()
	t.Logf("the pods' share of the CPUs from the start of the load on, every 5 s: %.2f", pods)
	if len(pods) == 0 {
		t.Error("there are no figures of the pods' CPU")
	}
	return loads
}

// shrink lets the autoscalers remove replicas while the load goes on: by the chart's own target it needs two of each.
// It waits until the others have drained and are gone.
func (s *story) shrink(t *T) {
	t.Helper()
	began := time.Now()
	const patch = `[{"op":"replace","path":"/spec/behavior/scaleDown/selectPolicy","value":"Max"},
		{"op":"replace","path":"/spec/metrics/0/containerResource/target/averageValue","value":"500m"}]`
	for _, row := range s.rows {
		for _, workload := range row.Workloads() {
			must(t, "patch", "hpa", "rowlock-"+row.Name+workload, "--type=json", "--patch="+patch)
		}
	}

	eventually(t, 2*time.Minute, func() error {
		for _, row := range s.rows {
			for _, command := range row.Commands() {
				selector := fmt.Sprintf("app.kubernetes.io/instance=%s,app.kubernetes.io/name=%s,%s=%s",
					release, row.Name, component, command)
				if n := len(s.allPods(t, selector)); n != 2 {
					return fmt.Errorf("%s %s has %d pods: %s", row.Name, command, n, must(t, "get", "hpa"))
				}
			}
		}
		return nil
	})
	t.Logf("all autoscalers are back at two replicas after %.0f s, under load", time.Since(began).Seconds())
}
