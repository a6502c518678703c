//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// story holds what the chapters share.
type story struct {
	settings
	api

	// rows are the services that are installed.
	rows []services.Service
	// issuer issues the tokens of service accounts.
	issuer string
	// switched says that payments asks for a token too. An upgrade under load makes it; the others do from the beginning.
	switched bool
	// budget is the number of connections that the chart's notes state as the most.
	budget int
	// undo deletes what is in no namespace.
	undo []func(ctx context.Context) error
	// restarting gets what was seen of the restart of one service alone, once it is over.
	restarting chan restart
}

// TestStory installs Rowlock into an empty namespace, upgrades it, uses it, injects
// faults, scales and uninstalls it. The chapters build on one another, so the
// first one that fails ends the test.
func TestStory(t *testing.T) { //nolint:paralleltest // there is one cluster
	s := &story{settings: fromEnvironment(t), api: startAPI(t)}
	var err error
	if s.rows, err = services.Choose(s.services); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cleanUp(t)
		for _, undo := range s.undo {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			if err := undo(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
	cleanUp(t)
	for _, chapter := range []struct {
		name string
		run  func(t *T)
	}{
		{"a database in a restricted namespace", s.prepare},
		{"install from nothing", s.install},
		{"the tours", s.tours},
		{"rolling upgrade", s.upgrade},
		{"helm test", s.helmTest},
		{"every replica works", s.everyReplica},
		{"roles have their own rows and nothing else", s.roles},
		{"the database restarts", s.databaseRestarts},
		{"a pod is deleted", s.podDeleted},
		{"autoscaling", s.autoscaling},
		{"who calls is known", s.identified},
		{"watched by an operator", s.watched},
		{"uninstall leaves nothing", func(t *T) { s.uninstall(t, s.helms[0]) }},
		{"one service alone, behind a pooler", s.alone}, // it restarts during the next two
		{"Helm 4 installs and uninstalls", s.byHelm4},
		{"kubectl applies what Helm renders", s.byKubectl},
		{"the service alone has restarted", s.restarted},
	} {
		began := time.Now()
		// Autoscaling takes one or two minutes. The last four of the test are for the dump and for cleaning up.
		limit := time.Now().Add(5 * time.Minute)
		if end, ok := t.Deadline(); ok && end.Add(-4*time.Minute).Before(limit) {
			limit = end.Add(-4 * time.Minute)
		}
		if !t.Run(chapter.name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), limit)
			defer cancel()
			chapter.run(&T{T: t, ctx: ctx})
		}) {
			dump(t)
			return
		}
		t.Logf("%s: %.0f s", chapter.name, time.Since(began).Seconds())
	}
}

// cleanUp deletes the namespace.
func cleanUp(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if _, err := kubectl(ctx, "delete", "namespace", namespace, "--ignore-not-found", "--timeout=110s"); err != nil {
		t.Error(err)
	}
}

func (s *story) prepare(t *T) {
	if _, err := command(t.Context(), `
apiVersion: v1
kind: Namespace
metadata:
  name: `+namespace+`
  labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}
`, "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	apply(t, run(t, "", "../../k8s/tls.sh"))
	manifest, err := os.ReadFile("../../k8s/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, strings.Replace(string(manifest), "image: postgres:17", "image: "+s.postgres, 1))
	s.createAccounts(t)
	shell := fmt.Sprintf(`image: %s, command: [sleep, "86400"]`, s.client)
	createPod(t, "client", shell)
	createPodOf(t, outside, projected, "outside", shell)
	must(t, "rollout", "status", "statefulset/postgres", "--timeout=2m")
	psql := "kubectl --namespace " + namespace + " exec --stdin postgres-0 -- psql --username=postgres --dbname=rowlock"
	apply(t, run(t, "", "env", append([]string{"PSQL=" + psql, "../../k8s/roles.sh"}, s.services...)...))
	must(t, "create", "secret", "generic", "rowlock-payments-fingerprint",
		"--from-literal=current="+rand.Text()+rand.Text())
	// The services' roles have what roles.psql grants, and nothing that everyone has.
	revoke := "REVOKE ALL ON DATABASE rowlock FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC"
	if _, err := s.query(t.Context(), revoke); err != nil {
		t.Fatal(err)
	}
	wait(t, time.Minute, "condition=Ready", "pod/client")

	// The namespace refuses a pod that is not restricted.
	if out, err := kubectl(t.Context(), "run", "root", "--image="+s.client); err == nil {
		t.Errorf("a pod that is not restricted is admitted: %s", out)
	}
}

// values returns the flags of the whole story, and more of them as --set pairs.
func (s *story) values(more ...string) []string {
	args := []string{
		"--namespace", namespace, "--values=../../k8s/values.yaml", "--set=counts.maxSurge=3",
		"--set-string=global.image.tag=" + s.tag, fmt.Sprintf("--set=payments.auth.enabled=%t", s.switched),
	}
	args = append(args, s.auth()...)
	for _, row := range services.All() {
		name := row.Name
		args = append(args,
			fmt.Sprintf("--set=%s.enabled=%t", name, slices.Contains(s.services, name)),
			// All of them run on a small node; counts alone scales.
			fmt.Sprintf("--set=%s.autoscaling.enabled=%t", name, name == services.Counts),
			fmt.Sprintf("--set=%s.replicas=2,%s.resources.requests.cpu=50m", name, name),
			fmt.Sprintf("--set=%s.config.LOG_REQUESTS=errors", name),
			// Faster rollouts than by default, for more connections.
			fmt.Sprintf("--set=%s.minReadySeconds=2", name))
	}
	args = append(args,
		"--set=counts.autoscaling.minReplicas=2,counts.autoscaling.targetCPUUtilizationPercentage=60",
		"--set=counts.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=5",
		`--set-json=counts.autoscaling.behavior.scaleDown.policies=[{"type":"Percent","value":100,"periodSeconds":15}]`)
	for _, pair := range more {
		args = append(args, "--set="+pair)
	}
	return args
}

// install installs the version from which upgrade goes on: that of the images, marked as the earlier one, with payments
// of an earlier revision where its image is there, which knows no callers.
func (s *story) install(t *T) {
	var earlier []string
	for _, row := range services.All() {
		earlier = append(earlier, row.Name+".podAnnotations.version=earlier")
	}
	if s.earlier != "" {
		// With as many connections as its ledger had.
		earlier = append(earlier, services.Payments+".image.tag="+s.earlier, services.Payments+".database.secondPoolConns=5")
	}
	began := time.Now()
	out := run(t, "", s.helms[0],
		append([]string{"install", release, chart, "--wait", "--timeout=3m"}, s.values(earlier...)...)...)
	t.Logf("from nothing to ready in %.1f s", time.Since(began).Seconds())
	_, notes, _ := strings.Cut(out, "\nConnections: at most ")
	if _, err := fmt.Sscan(notes, &s.budget); err != nil {
		t.Errorf("the notes do not say how many connections there may be:\n%s", out)
	}
	s.limit(t, out)
	for _, pod := range s.pods(t) {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount != 0 || !c.Ready {
				t.Errorf("%s: restarted %d times, ready %t", pod.Name, c.RestartCount, c.Ready)
			}
		}
	}
}

// pods returns the replicas that are not ending, of the services named; of all when none is.
func (s *story) pods(t *T, names ...string) (pods []core.Pod) {
	t.Helper()
	for _, pod := range s.allPods(t, "app.kubernetes.io/instance="+release) {
		name := pod.Labels["app.kubernetes.io/name"]
		if pod.DeletionTimestamp == nil && slices.Contains(s.services, name) &&
			(len(names) == 0 || slices.Contains(names, name)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// allPods returns the pods that a selector finds, ending ones included.
func (s *story) allPods(t *T, selector string) []core.Pod {
	t.Helper()
	all, err := s.podsOf(t.Context(), selector)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// helmTest runs `helm test` by both Helms.
func (s *story) helmTest(t *T) {
	for _, helm := range s.helms {
		s.check(t, helm)
	}
}

// check runs `helm test`.
func (s *story) check(t *T, helm string) {
	t.Helper()
	out, err := command(t.Context(), "", helm, "test", release, "--namespace", namespace, "--timeout=2m")
	if err != nil {
		log, _ := kubectl(t.Context(), "logs", release+"-check")
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	if !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test says\n%s", out)
	}
}

func (s *story) uninstall(t *T, helm string) {
	t.Helper()
	run(t, "", helm, "uninstall", release, "--namespace", namespace, "--wait", "--timeout=2m")
	s.wantNothing(t)
}

// wantNothing waits until nothing of the release is left.
func (s *story) wantNothing(t *T) {
	t.Helper()
	kinds := []string{
		"deployments", "replicasets", "pods", "services", "configmaps", "secrets", "serviceaccounts",
		"horizontalpodautoscalers", "poddisruptionbudgets", "networkpolicies", "jobs", "leases",
	}
	defined := must(t, "get", "customresourcedefinitions", "-o", "name")
	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		if strings.Contains(defined, "/"+kind+".monitoring.coreos.com\n") {
			kinds = append(kinds, kind)
		}
	}
	eventually(t, time.Minute, func() error {
		out := must(t, "get", strings.Join(kinds, ","), "-o", "name", "--selector=app.kubernetes.io/instance="+release)
		out += must(t, "get", "secrets", "-o", "name", "--selector=owner=helm,name="+release)
		if out != "" {
			return fmt.Errorf("left behind: %s", out)
		}
		return nil
	})
}
