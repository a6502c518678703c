//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// byHelm4 installs and upgrades by Helm 4 alone, which applies on the server's side. The upgrade leaves the replicas alone that somebody
// else has chosen.
func (s *story) byHelm4(t *T) {
	helm := s.helms[1]
	keep := "counts.autoscaling.behavior.scaleDown.selectPolicy=Disabled"
	args := append([]string{"install", release, chart, "--wait", "--timeout=3m"}, s.values(keep)...)
	if _, err := command(t.Context(), "", helm, args...); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(s.services, "counts") {
		must(t, "scale", "deployment", "rowlock-counts", "--replicas=3")
		// In a hurry, by the runbook's command, about the only service here that scales and the only image that there is.
		args := documentedUpgrade(t, "../../docs/runbook.md", "## In a cluster: a rollback has to be quick")
		for i, arg := range args {
			args[i] = strings.NewReplacer("iidy.", "counts.", "tag=0.1.0", "tag="+s.tag).Replace(arg)
		}
		if _, err := command(t.Context(), "", helm, append(args, "--set=counts.podAnnotations.upgrade=by-helm-4")...); err != nil {
			t.Fatal(err)
		}
		counts := fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec
		if n, of := *counts.Replicas, counts.Template.Annotations["upgrade"]; n != 3 || of != "by-helm-4" {
			t.Errorf("after an upgrade by Helm 4 counts has %d replicas, upgraded %q: there were 3", n, of)
		}
	}
	s.check(t, helm)
	s.uninstall(t, helm)
}

// byKubectl uses Helm to render and for nothing else.
func (s *story) byKubectl(t *T) {
	manifests, err := command(t.Context(), "", s.helms[0],
		append([]string{"template", release, chart, "--skip-tests", "--kube-version=1.34.0"}, s.values()...)...)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing changes
		apply(t, manifests)
	}
	for _, row := range s.rows {
		for _, workload := range row.workloads {
			must(t, "rollout", "status", "deployment/rowlock-"+row.name+workload, "--timeout=2m")
		}
	}
	_, err = command(t.Context(), manifests, "kubectl", "--namespace", namespace, "delete", "--wait", "--timeout=90s", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
}

// alone releases the generic chart by itself, behind PgBouncer, with the whole URI in its secret as CloudNativePG writes it. Its replicas
// may not migrate: the Job of the chart's README does, on the direct way.
func (s *story) alone(t *T) {
	if !slices.Contains(s.services, "counts") {
		return
	}
	must(t, "exec", "postgres-0", "--", "psql", "--username=postgres", "--dbname=rowlock",
		"--command=DROP SCHEMA counts CASCADE; CREATE SCHEMA counts AUTHORIZATION counts")
	page, err := os.ReadFile(chart + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	job := strings.Replace(block(string(page), "yaml"), "count-processing-service:0.1.0", "count-processing-service:"+s.tag, 1)
	apply(t, job)
	s.behindPooler(t)
	wait(t, time.Minute, "condition=Complete", "job/counts-migrate")
	wait(t, time.Minute, "condition=Ready", "pod/pgbouncer")
	helm := s.helms[1]
	values, err := command(t.Context(), "", helm, "show", "values", chart, "--jsonpath", "{.counts}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), values, helm, "install", "counts", chart+"/charts/service", "--namespace", namespace, "--values=-",
		"--set=database.existingSecret=counts-pooled,database.keys.uri=uri,database.parameters=sslmode=disable,database.pooler=transaction",
		"--set=migrations.mode=none,autoscaling.enabled=false,networkPolicy.enabled=true,networkPolicy.databasePorts={6432}",
		// For restart: a replica takes 8 s and a little to end, and the chart counts with 17.
		"--set=shutdown.preStopSeconds=8,shutdown.delaySeconds=0,shutdown.timeoutSeconds=4",
		"--set=config.REQUEST_TIMEOUT=3s,config.DB_STATEMENT_TIMEOUT=2s,config.DB_LOCK_TIMEOUT=1s",
		"--set-string=image.tag="+s.tag); err != nil {
		t.Fatal(err)
	}
	// Until both replicas are ready; to be available they need longer.
	eventually(t, time.Minute, func() error {
		ready := must(t, "get", "deployment", "counts", "-o", "jsonpath={.status.readyReplicas}")
		if ready != "2" {
			return fmt.Errorf("counts has %q replicas that are ready", ready)
		}
		return nil
	})
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: check-counts}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
    - name: check
      image: rowlock/lab:%s
      args: [check, --counts=http://counts:80, --counts-internal=http://counts-internal:8081]
      securityContext: %s
`, s.tag, restricted))
	wait(t, time.Minute, "jsonpath={.status.phase}=Succeeded", "pod/check-counts")
	t.Logf("behind the pooler: %s", strings.TrimSpace(must(t, "logs", "check-counts")))

	// No way leads past the pooler.
	from, err := s.query(t.Context(), "SELECT DISTINCT host(client_addr) FROM pg_stat_activity WHERE usename = 'counts'")
	if ip := fetch[core.Pod](t, "pod", "pgbouncer").Status.PodIP; err != nil || strings.TrimSpace(from) != ip {
		t.Errorf("counts is connected from %q, and the pooler is %s: %v", from, ip, err)
	}
	s.restart(t, "counts", 2, 1)
	if _, err := command(t.Context(), "", helm, "uninstall", "counts", "--namespace", namespace, "--wait"); err != nil {
		t.Fatal(err)
	}
}

// restart rolls a release's Deployment out at the chart's own pace, minReadySeconds: auto. It counts the replicas that there are,
// ending ones included, for each of them has connections: the budget is for replicas + 2 x surge, no more than surge of them ending.
func (s *story) restart(t *T, name string, replicas, surge int) {
	t.Helper()
	wait(t, time.Minute, "condition=Available", "deployment/"+name)
	pods := func() []core.Pod {
		return s.allPods(t, "app.kubernetes.io/component=serve,app.kubernetes.io/instance="+name)
	}
	old := map[string]bool{}
	for _, pod := range pods() {
		old[pod.Name] = true
	}
	began := time.Now()
	must(t, "rollout", "restart", "deployment/"+name)
	most, mostEnding, looks := 0, 0, 0
	eventually(t, 90*time.Second, func() error {
		all, left, ending := pods(), 0, 0
		for _, pod := range all {
			if old[pod.Name] {
				left++
			}
			if pod.DeletionTimestamp != nil {
				ending++
			}
		}
		most, mostEnding, looks = max(most, len(all)), max(mostEnding, ending), looks+1
		if left > 0 || len(all) != replicas {
			return fmt.Errorf("there are %d replicas, %d of them old, %d ending", len(all), left, ending)
		}
		return nil
	})
	took := time.Since(began)
	t.Logf("%s restarts at its own pace in %.0f s: at most %d replicas of %d, and %d ending (%d looks)",
		name, took.Seconds(), most, replicas, mostEnding, looks)
	if most <= replicas || most > replicas+2*surge || mostEnding > surge {
		t.Errorf("there were %d replicas at once, %d of them ending; the chart counts with %d, %d of them ending",
			most, mostEnding, replicas+2*surge, surge)
	}
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// behindPooler makes a PgBouncer with fewer connections to the server than the replicas have to it, and a secret with the way there.
func (s *story) behindPooler(t *T) {
	t.Helper()
	password := string(fetch[core.Secret](t, "secret", "rowlock-counts-db").Data["password"])
	uri := url.URL{Scheme: "postgresql", User: url.UserPassword("counts", password), Host: "pgbouncer:6432", Path: "/rowlock"}
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: counts-pooled}
stringData: {uri: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: pgbouncer}
stringData:
  users.txt: %q
  pgbouncer.ini: |
    [databases]
    rowlock = host=postgres port=5432
    [pgbouncer]
    listen_addr = 0.0.0.0
    listen_port = 6432
    unix_socket_dir =
    auth_type = plain
    auth_file = /etc/pgbouncer/users.txt
    pool_mode = transaction
    default_pool_size = 4
---
apiVersion: v1
kind: Service
metadata: {name: pgbouncer}
spec:
  ports: [{port: 6432}]
  selector: {app: pgbouncer}
---
apiVersion: v1
kind: Pod
metadata: {name: pgbouncer, labels: {app: pgbouncer}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
    - name: pgbouncer
      image: %s
      command: [pgbouncer, /etc/pgbouncer/pgbouncer.ini]
      ports: [{containerPort: 6432}]
      readinessProbe: {tcpSocket: {port: 6432}, periodSeconds: 1}
      securityContext: %s
      volumeMounts: [{name: config, mountPath: /etc/pgbouncer}]
  volumes: [{name: config, secret: {secretName: pgbouncer}}]
`, uri.String(), `"counts" "`+password+`"`, s.pooler, restricted))
}
