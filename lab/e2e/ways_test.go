//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// byHelm4 installs and upgrades by Helm 4 alone, which applies on the server's
// side. The upgrade keeps a number of replicas that was set by another client.
func (s *story) byHelm4(t *T) {
	helm := s.helms[1]
	keep := "counts.autoscaling.behavior.scaleDown.selectPolicy=Disabled"
	run(t, "", helm, append([]string{"install", release, chart, "--wait", "--timeout=3m"}, s.values(keep)...)...)
	must(t, "scale", "deployment", "rowlock-counts", "--replicas=3")
	// By the runbook's command for a quick rollback, with the service that scales here and the image that there is.
	args := documentedUpgrade(t, "../../docs/runbook.md", "## In a cluster: a rollback has to be quick")
	for i, arg := range args {
		args[i] = strings.NewReplacer("iidy.", "counts.", "tag=0.1.0", "tag="+s.tag).Replace(arg)
	}
	run(t, "", helm, append(args, "--set=counts.podAnnotations.upgrade=by-helm-4")...)
	counts := fetch[apps.Deployment](t, "deployment", "rowlock-counts").Spec
	if n, of := *counts.Replicas, counts.Template.Annotations["upgrade"]; n != 3 || of != "by-helm-4" {
		t.Errorf("after an upgrade by Helm 4 counts has %d replicas, upgraded %q: there were 3", n, of)
	}
	s.check(t, helm)
	s.uninstall(t, helm)
}

// byKubectl applies and deletes what Helm renders.
func (s *story) byKubectl(t *T) {
	manifests := run(t, "", s.helms[0],
		append([]string{"template", release, chart, "--skip-tests", "--kube-version=1.34.0"}, s.values()...)...)
	for range 2 { // the second time nothing changes
		apply(t, manifests)
	}
	for _, row := range s.rows {
		for _, workload := range row.Workloads() {
			must(t, "rollout", "status", "deployment/rowlock-"+row.Name+workload, "--timeout=2m")
		}
	}
	run(t, manifests, "kubectl", "--namespace", namespace, "delete", "--wait", "--timeout=90s", "-f", "-")
	s.wantNothing(t)
}

// alone installs the generic chart by itself, behind PgBouncer, with the whole URI
// in its secret as CloudNativePG writes it. Its replicas do not migrate: a Job does, as
// the owner, by a direct connection. It goes on while it restarts, until restarted.
func (s *story) alone(t *T) {
	must(t, "exec", "postgres-0", "--", "psql", "--username=postgres", "--dbname=rowlock",
		"--command=DROP TABLE counts.count_values, counts.journal, counts.idempotency_keys, counts.goose_db_version")
	s.behindPooler(t)
	wait(t, time.Minute, "condition=Ready", "pod/pgbouncer")
	helm := s.helms[1]
	values := run(t, "", helm, "show", "values", chart, "--jsonpath", "{.counts}")
	run(t, values, helm, append([]string{
		"install", "counts", chart + "/charts/service", "--namespace", namespace, "--values=-",
		"--set=database.existingSecret=counts-pooled,database.keys.uri=uri",
		"--set=database.parameters=sslmode=disable,database.pooler=transaction",
		"--set=migrations.mode=job,autoscaling.enabled=false,networkPolicy.databasePorts={6432,5432}",
		// For restart: a replica takes a little over 8 s to end, and the chart expects 17.
		"--set=shutdown.preStopSeconds=8,shutdown.delaySeconds=0,shutdown.timeoutSeconds=4",
		"--set=config.REQUEST_TIMEOUT=3s,config.DB_STATEMENT_TIMEOUT=2s,config.DB_LOCK_TIMEOUT=1s",
		"--set-string=image.tag=" + s.tag,
	}, s.auth()...)...)
	// Both replicas are ready some time before they are available.
	eventually(t, time.Minute, func() error {
		ready := must(t, "get", "deployment", "counts", "-o", "jsonpath={.status.readyReplicas}")
		if ready != "2" {
			return fmt.Errorf("counts has %q replicas that are ready", ready)
		}
		return nil
	})
	createPod(t, "check-counts", fmt.Sprintf(`image: rowlock/lab:%s,
        args: [check, --token-file=/var/run/secrets/rowlock/token, --counts=http://counts:80,
          --counts-internal=http://counts-internal:8081]`, s.tag))
	wait(t, time.Minute, "jsonpath={.status.phase}=Succeeded", "pod/check-counts")
	t.Logf("behind the pooler: %s", strings.TrimSpace(must(t, "logs", "check-counts")))

	// All connections come from the pooler.
	from, err := s.query(t.Context(), "SELECT DISTINCT host(client_addr) FROM pg_stat_activity WHERE usename = 'counts'")
	if ip := fetch[core.Pod](t, "pod", "pgbouncer").Status.PodIP; err != nil || strings.TrimSpace(from) != ip {
		t.Errorf("counts is connected from %q, and the pooler is %s: %v", from, ip, err)
	}
	s.restart(t)
}

// behindPooler creates a PgBouncer with fewer connections to the server than the
// replicas have to it, a secret with its address, and the owner's with the server's.
func (s *story) behindPooler(t *T) {
	t.Helper()
	password := string(fetch[core.Secret](t, "secret", "rowlock-counts-db").Data["password"])
	uri := url.URL{Scheme: "postgresql", User: url.UserPassword("counts", password), Host: "pgbouncer:6432", Path: "/rowlock"}
	owners := string(fetch[core.Secret](t, "secret", "rowlock-counts-db-owner").Data["password"])
	direct := url.URL{Scheme: "postgresql", User: url.UserPassword("counts_owner", owners), Host: "postgres", Path: "/rowlock"}
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: counts-pooled}
stringData: {uri: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: counts-pooled-owner}
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
`, uri.String(), direct.String(), `"counts" "`+password+`"`, s.pooler, restricted))
}
