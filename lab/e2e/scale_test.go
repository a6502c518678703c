//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// rate is how many requests a second each service gets all the time. All of it runs on a small node.
const rate = 25

// releases leads the release through an operator's week, under one load on every service, in which no request may fail:
//
//   - an upgrade from the README's values to the story's, by the other Helm: callers need a token from then on;
//   - more load on every service, and an upgrade of the autoscalers' ranges alone, which replaces no pod: each of the
//     autoscalers adds replicas up to its maximum, where they stay;
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

	// It rolls faster than at the chart's own pace, and so does the way back to it.
	began := time.Now()
	s.upgrade(t, s.helms[1], s.tag, "--wait", "--timeout=3m")
	rolledOut(t)
	t.Logf("upgraded in %.1f s", time.Since(began).Seconds())
	s.wantRelease(t, s.tag)
	revision := strings.TrimSpace(must(t, "get", "secrets", "--selector=owner=helm,status=deployed,name="+release,
		"-o", "jsonpath={.items[*].metadata.labels.version}"))

	grown := s.grow(t)
	end(grown) // they compare what is stored during the next upgrade
	before := s.schemas(t)
	s.rollOut(t, grown)
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
		most := must(t, "get", "hpa", "--selector="+ours, "-o", "jsonpath={.items[*].spec.maxReplicas}")
		if strings.Trim(most, "2 ") != "" {
			t.Errorf("after the rollback the autoscalers may make %s replicas, want 2 each", most)
		}
	}
	s.passwords(t)
	wantFlawless(t, s.stop(t, rotation), 500)
	wantWithin(t, "connections of all services", open, s.budget)
	s.newSessions(t)

	// No value says so: the upgrades have found them.
	policies := fetch[networking.NetworkPolicyList](t, "/apis/networking.k8s.io/v1", "networkpolicies", ours)
	if len(policies.Items) < len(s.rows) {
		t.Errorf("after the upgrades there are %d NetworkPolicies for %d services", len(policies.Items), len(s.rows))
	}
}

// rollOut upgrades every service at once, each with as many replicas as its autoscaler may make, while the pod of `helm
// test` checks them, and the loads that made the replicas report. It demands that as many new replicas get ready, and
// that no more connections are open than the chart states, including the migrations.
func (s *story) rollOut(t *T, grown []*load) {
	t.Helper()
	began := time.Now()
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

	tag := cmp.Or(s.next, s.tag)
	s.upgrade(t, s.helms[0], tag, append(s.wide(), "--set=global.podAnnotations.rollout="+full)...)
	wantFlawless(t, stopLoads(t, grown), 500)
	// Ready is enough: until the last ones are available too nothing more happens.
	eventually(t, 3*time.Minute, func() error {
		replaced := slices.DeleteFunc(s.pods(t), func(pod core.Pod) bool { return pod.Annotations["rollout"] != full })
		if missing := s.missing(replaced); len(missing) > 0 {
			return fmt.Errorf("%v have fewer new replicas than their autoscalers had made", missing)
		}
		return nil
	})
	t.Logf("upgraded to %s in %.1f s", tag, time.Since(began).Seconds())
	if err := <-checked; err != nil {
		t.Errorf("helm test's pod during the rollout: %v", err)
	}
	wantWithin(t, "connections of all services", open, s.budget)
	s.wantRelease(t, tag)
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

// wantWithin stops a sampler of connections, and demands that there were never more than the chart states. There is at
// least one of each service all the time.
func wantWithin(t *T, what string, counted *sampler, budget int) {
	t.Helper()
	connections := counted.stop()
	if len(connections) < 10 || slices.Min(connections) < float64(len(targets.All())) {
		t.Fatalf("the %s were not counted: %.0f", what, connections)
	}
	most := slices.Max(connections)
	t.Logf("%s: %.0f at most, the chart states %d (%d looks)", what, most, budget, len(connections))
	if int(most) > budget {
		t.Errorf("%s: %.0f, and the chart states %d at most", what, most, budget)
	}
}

// rolledOut waits until all replicas have the last change. Helm 3 takes one missing for enough.
func rolledOut(t *T) {
	t.Helper()
	must(t, "rollout", "status", "deployment", "--selector="+ours, "--timeout=3m")
}

// upgrade upgrades to the images of a tag by one of the two Helms, with Jobs that migrate, and reads the notes.
func (s *story) upgrade(t *T, helm, tag string, flags ...string) {
	t.Helper()
	args := append([]string{"upgrade", release, chart}, s.values()...)
	args = append(args, "--set=global.migrations.mode=job", "--set-string=global.image.tag="+tag)
	s.readNotes(t, run(t, "", helm, append(args, flags...)...))
}

// widen upgrades to the values of wide alone, which replaces no pod.
func (s *story) widen(t *T) {
	t.Helper()
	before := revisions(t)

	s.upgrade(t, s.helms[1], s.tag, s.wide()...)
	if after := revisions(t); len(before) == 0 || !maps.Equal(before, after) {
		t.Errorf("new ranges for the autoscalers changed the Deployments' revisions from %v to %v", before, after)
	}
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
	ready := ready(slices.DeleteFunc(s.pods(t), func(pod core.Pod) bool {
		return !strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+tag)
	}))

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
	var pairs []string
	for _, row := range s.rows {
		pairs = append(pairs, fmt.Sprintf("'%s', (SELECT max(version_id) FROM %s.goose_db_version)",
			row.Name, cmp.Or(row.HistorySchema, row.Name)))
	}
	out, err := s.query(t.Context(), "SELECT json_build_object("+strings.Join(pairs, ", ")+")")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]int{}
	if err := json.Unmarshal([]byte(out), &versions); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return versions
}

// most returns how many replicas the autoscaler of each of a service's workloads may make, by the chart's defaults.
func most(service string) int {
	if service == targets.Counts {
		return 4
	}
	return 3
}

// wide returns the flags for autoscalers of the chart's own ranges, which remove nothing before shrink, and for
// rollouts at the chart's own pace.
func (s *story) wide() (flags []string) {
	for _, row := range s.rows {
		flags = append(flags, fmt.Sprintf("--set=%[1]s.minReadySeconds=auto,%[1]s.autoscaling.maxReplicas=%[2]d,"+
			"%[1]s.autoscaling.behavior.scaleDown.selectPolicy=Disabled", row.Name, most(row.Name)))
	}
	return flags
}

// missing returns the services of which a workload has fewer ready replicas among these than its autoscaler may make.
func (s *story) missing(pods []core.Pod) (names []string) {
	ready := ready(pods)
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

// grow adds load on every service, and widens the autoscalers' ranges, until each has added all replicas that it may.
// It returns the loads.
func (s *story) grow(t *T) (loads []*load) {
	t.Helper()
	const mostLoads = 4 // more of each service
	// Requests a second of each.
	rates := map[string]int{targets.Counts: 300, targets.Events: 100}

	began := time.Now()
	// How much load is needed depends on the machine.
	missing := s.services
	for n := 1; len(missing) > 0; n++ {
		if n > mostLoads {
			t.Fatalf("%v have too few replicas with %d loads more:\n%s", missing, mostLoads, must(t, "get", "hpa"))
		}
		var more []*load
		for _, name := range missing {
			more = append(more, newLoad(s.settings, name, cmp.Or(rates[name], 150), 16))
		}
		begin(t, more)
		loads = append(loads, more...)

		if n == 1 {
			s.widen(t)
		}
		// A look loads the node as well: few of them.
		const limit = 40 * time.Second
		for since := time.Now(); len(missing) > 0 && time.Since(since) < limit && t.Context().Err() == nil; {
			time.Sleep(time.Second)
			missing = s.missing(s.pods(t))
		}
	}
	t.Logf("all autoscalers are at their maximum after %.0f s, by %d loads more:\n%s",
		time.Since(began).Seconds(), len(loads), must(t, "get", "hpa"))
	return loads
}

// shrink lets the autoscalers remove replicas while the load goes on: by the chart's own target it needs two of each.
// It waits until the others have drained and are gone.
func (s *story) shrink(t *T) {
	t.Helper()
	began := time.Now()
	const patch = `[{"op":"replace","path":"/spec/behavior/scaleDown/selectPolicy","value":"Max"},
		{"op":"replace","path":"/spec/metrics/0/containerResource/target/averageValue","value":"500m"}]`
	hpas := strings.Fields(must(t, "get", "hpa", "--selector="+ours, "-o", "name"))
	must(t, append([]string{"patch", "--type=json", "--patch=" + patch}, hpas...)...)

	// None has fewer than two.
	eventually(t, 2*time.Minute, func() error {
		if n := len(s.pods(t)); n != 2*len(hpas) {
			return fmt.Errorf("%d autoscalers have %d replicas", len(hpas), n)
		}
		return nil
	})
	s.wantGone(t)
	t.Logf("all autoscalers are back at two replicas after %.0f s, under load", time.Since(began).Seconds())
}
