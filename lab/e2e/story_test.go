//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// story holds what the chapters of one namespace share.
type story struct {
	settings
	api
	place

	// rows are the services that are installed.
	rows []targets.Service
	// issuer issues the tokens of service accounts.
	issuer string
	// budget is the number of connections that the chart's notes state as the most.
	budget int
	// undo deletes what is in no namespace.
	undo []func(ctx context.Context) error
	// installed is closed when the chapter of the README is over.
	installed chan struct{}
}

// chapter is a part of a story.
type chapter struct {
	name string
	run  func(t *T)
}

// TestStory tells two stories, each in an empty namespace with its own database: one of a release by the chart's
// README that is upgraded, rolled back, used, scaled and disturbed, and one of other ways to install.
func TestStory(t *testing.T) {
	shared, proxy := fromEnvironment(t), startAPI(t)
	rows, err := targets.Choose(shared.services)
	if err != nil {
		t.Fatal(err)
	}

	in := func(namespace string) *story {
		return &story{settings: shared, api: proxy, place: place(namespace), rows: rows, installed: make(chan struct{})}
	}
	release, ways := in("rowlock-e2e"), in("rowlock-e2e-ways")

	t.Run("a release", func(t *testing.T) {
		t.Parallel()
		release.tell(t, []chapter{
			{"the chart's README, from an empty cluster to helm test", release.followed},
			{"the README's release has come to rest", release.settled},
			{"upgrade, rollback and upgrade under load", release.releases},
			{"the replicas", together(
				chapter{"roles", release.roles},
				chapter{"who calls is known", release.identified},
			)},
			{"watched by an operator", release.watched},
			{"the database restarts", release.databaseRestarts},
			{"uninstall leaves nothing", func(t *T) { release.uninstall(t, release.helms[0]) }},
		})
	})

	t.Run("other ways", func(t *testing.T) {
		t.Parallel()
		ways.tell(t, []chapter{
			{"a database in a restricted namespace", ways.prepare},
			{"one service alone, behind a pooler, by Helm 4", ways.alone},
			{"kubectl applies what Helm renders, and the tours", func(t *T) {
				wantSoon(t, release.installed) // the README's pods ask for most of the node
				ways.byKubectl(t)
			}},
		})
	})
}

// tell runs the chapters in their namespace. They build on one another, so the first one that fails ends the story.
func (s *story) tell(t *testing.T, chapters []chapter) {
	t.Helper()
	s.deleteNamespace(t, true)
	t.Cleanup(func() {
		s.deleteNamespace(t, false)
		for _, undo := range s.undo {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			if err := undo(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})

	for _, chapter := range chapters {
		began := time.Now()
		// The longest takes some minutes. The last four of the test are for the dump and for cleaning up.
		limit := time.Now().Add(12 * time.Minute)
		if end, ok := t.Deadline(); ok && end.Add(-4*time.Minute).Before(limit) {
			limit = end.Add(-4 * time.Minute)
		}

		if !t.Run(chapter.name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), limit)
			t.Cleanup(cancel) // not before the parts of a chapter have ended
			chapter.run(&T{T: t, ctx: ctx, place: s.place, api: s.api})
		}) {
			s.dump(t)
			return
		}
		t.Logf("%s: %.0f s", chapter.name, time.Since(began).Seconds())
	}
}

// together makes one chapter of some that change nothing that another one looks at. They run at once.
func together(parts ...chapter) func(t *T) {
	return func(t *T) {
		for _, part := range parts {
			t.Run(part.name, func(one *testing.T) {
				one.Parallel()
				part.run(&T{T: one, ctx: t.ctx, place: t.place, api: t.api})
			})
		}
	}
}

// deleteNamespace deletes the namespace, if there is one, and waits for its end.
func (s *story) deleteNamespace(t *testing.T, wait bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if _, err := s.kubectl(ctx, "delete", "namespace", string(s.place), "--ignore-not-found", "--timeout=110s",
		fmt.Sprintf("--wait=%t", wait)); err != nil {
		t.Error(err)
	}
}

// restrict is a manifest of the namespace, in which pods have to be restricted.
func (s *story) restrict() string {
	return `{apiVersion: v1, kind: Namespace, metadata: {name: ` + string(s.place) + `, labels:
  {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}}`
}

// prepare makes a database with the services' roles and secrets.
func (s *story) prepare(t *T) {
	apply(t, s.restrict())
	apply(t, run(t, "", "../../k8s/tls.sh"))
	apply(t, strings.Replace(read(t, "../../k8s/postgres.yaml"), postgresImage, "image: "+s.postgres, 1))
	s.createAccounts(t)
	must(t, "rollout", "status", "statefulset/postgres", "--timeout=2m")
	s.newPasswords(t)
	must(t, "create", "secret", "generic", "rowlock-payments-fingerprint",
		"--from-literal=current="+rand.Text()+rand.Text())
	apply(t, pod(caller, projected, "client", fmt.Sprintf(`image: %s, command: [sleep, "86400"]`, s.client)))
}

// newPasswords gives the roles new passwords, and makes them where they are missing, and puts these into the secrets.
func (s *story) newPasswords(t *T) {
	t.Helper()
	psql := "PSQL=kubectl --namespace " + string(s.place) +
		" exec --stdin postgres-0 -- psql --username=postgres --dbname=rowlock"
	apply(t, run(t, "", "env", append([]string{psql, "../../k8s/roles.sh"}, s.services...)...))
}

// postgresImage is the line of k8s/postgres.yaml that names the image.
const postgresImage = "image: postgres:19"

// values returns the flags of the stories.
func (s *story) values() []string {
	args := []string{
		"--namespace", string(s.place), "--values=../../k8s/values.yaml",
		"--set-string=global.image.tag=" + s.tag,
	}

	args = append(args, s.auth()...)
	for _, row := range targets.All() {
		name := row.Name
		args = append(args,
			fmt.Sprintf("--set=%s.enabled=%t", name, slices.Contains(s.services, name)),
			// All of them run on a small node.
			fmt.Sprintf("--set=%[1]s.resources.requests.cpu=10m,%[1]s.migrations.resources.requests.cpu=10m", name),
			fmt.Sprintf("--set=%s.config.LOG_REQUESTS=errors", name),
			fmt.Sprintf("--set=%s.database.passwordFile=%t", name, byFile(name)),
			// Faster rollouts than by default, in which both replicas may stand beside two new ones. In wide ones, at the
			// chart's own pace, a replica may take 14 s to end.
			fmt.Sprintf("--set=%[1]s.minReadySeconds=2,%[1]s.autoscaling.maxReplicas=2", name),
			fmt.Sprintf("--set=%[1]s.shutdown.preStopSeconds=2,%[1]s.shutdown.delaySeconds=1,%[1]s.shutdown.timeoutSeconds=6",
				name),
			// Little load makes replicas here, and its end removes them soon.
			fmt.Sprintf("--set=%s.autoscaling.targetCPUAverageValue=%s", name, target),
			fmt.Sprintf("--set=%s.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=0", name),
			fmt.Sprintf(`--set-json=%s.autoscaling.behavior.scaleDown.policies=`+
				`[{"type":"Percent","value":100,"periodSeconds":15}]`, name))
	}
	return append(args,
		"--set=global.config.DB_LOCK_TIMEOUT=1s,global.config.DB_STATEMENT_TIMEOUT=4s,global.config.REQUEST_TIMEOUT=5s",
		"--set=payments.config.LOCK_WAIT=2s,payments.config.PROCESSOR_TIMEOUT=2s",
		"--set=events.autoscaling.targetCPUAverageValue="+targetOfEvents,
		// One event a transaction, so that a few events are work, because the loads' end reads every event.
		"--set=events.config.WORKER_BATCH=1,events.workloads.work.autoscaling.targetCPUAverageValue="+targetOfWorkers)
}

// The CPU that a replica uses before there is one more, of events otherwise: two use less by 50 requests a second of
// each service, and more by what grow adds.
const target, targetOfEvents, targetOfWorkers = "30m", "20m", "15m"

// readNotes notes the number of connections that the notes of a release state, and sets the limits that they name.
func (s *story) readNotes(t *T, out string) {
	t.Helper()
	_, notes, _ := strings.Cut(out, "\nConnections: at most ")
	if _, err := fmt.Sscan(notes, &s.budget); err != nil {
		t.Errorf("the notes do not say how many connections there may be:\n%s", out)
	}
	s.limit(t, out)
}

// wantSteady demands that all replicas are ready and that none has restarted.
func (s *story) wantSteady(t *T) {
	t.Helper()
	for _, pod := range s.pods(t) {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount != 0 || !c.Ready {
				t.Errorf("%s: restarted %d times, ready %t", pod.Name, c.RestartCount, c.Ready)
			}
		}
	}
}

// component is the label that tells serve, work, migrate and check apart.
const component = "app.kubernetes.io/component"

// pods returns the replicas that are not ending, of the services named; of all when none is.
func (s *story) pods(t *T, names ...string) (pods []core.Pod) {
	t.Helper()
	for _, pod := range s.allPods(t, ours) {
		name := pod.Labels["app.kubernetes.io/name"]
		if pod.DeletionTimestamp == nil && slices.Contains(s.services, name) && pod.Labels[component] != "migrate" &&
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

func (s *story) uninstall(t *T, helm string) {
	t.Helper()
	run(t, "", helm, "uninstall", release, "--namespace", string(s.place), "--wait", "--timeout=2m")
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
		out := must(t, "get", strings.Join(kinds, ","), "-o", "name", "--selector="+ours)
		out += must(t, "get", "secrets", "-o", "name", "--selector=owner=helm,name="+release)
		if out != "" {
			return fmt.Errorf("left behind: %s", out)
		}
		return nil
	})
}
