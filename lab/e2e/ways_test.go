//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// byKubectl applies what Helm renders, with init containers that migrate, runs the tours on the new database that some
// of them need, and deletes it.
func (s *story) byKubectl(t *T) {
	manifests := run(t, "", s.helms[0],
		append([]string{"template", release, chart, "--skip-tests", "--kube-version=1.34.0"}, s.values()...)...)
	for range 2 { // the second time nothing changes
		apply(t, manifests)
	}
	rolledOut(t)
	s.tours(t, true)
	run(t, manifests, "kubectl", "--namespace", string(s.place), "delete", "--wait", "--timeout=90s", "-f", "-")
	s.wantNothing(t)
}

// alone installs the generic chart for one service by Helm 4, which applies on the server's side, behind PgBouncer, by
// whole URIs in its secrets as CloudNativePG writes them. A Job migrates, as the owner and by a direct connection. The
// number of replicas is another client's to choose.
func (s *story) alone(t *T) {
	s.behindPooler(t)
	s.releaseAlone(t)
	must(t, "scale", "deployment", "counts", "--replicas=2")
	// Both replicas are ready some time before they are available.
	eventually(t, time.Minute, func() error {
		if n := fetch[apps.Deployment](t, "/apis/apps/v1", "deployments/counts", "").Status.ReadyReplicas; n != 2 {
			return fmt.Errorf("counts has %d replicas that are ready", n)
		}
		return nil
	})
	apply(t, pod(caller, projected, "check-counts", fmt.Sprintf(`image: rowlock/lab:%s,
        args: [check, --token-file=/var/run/secrets/rowlock/token, --counts=http://counts:80,
          --counts-internal=http://counts-internal:8081]`, s.tag)))
	wait(t, time.Minute, "jsonpath={.status.phase}=Succeeded", "pod/check-counts")
	t.Logf("behind the pooler: %s", strings.TrimSpace(must(t, "logs", "check-counts")))

	// All connections come from the pooler.
	from, err := s.query(t.Context(), "SELECT DISTINCT host(client_addr) FROM pg_stat_activity WHERE usename = 'counts'")
	ip := fetch[core.Pod](t, "/api/v1", "pods/pgbouncer", "").Status.PodIP
	if err != nil || strings.TrimSpace(from) != ip {
		t.Errorf("counts is connected from %q, and the pooler is %s: %v", from, ip, err)
	}
}

// releaseAlone installs the generic chart.
func (s *story) releaseAlone(t *T) {
	t.Helper()
	helm := s.helms[1]
	values := run(t, "", helm, "show", "values", chart, "--jsonpath", "{.counts}")
	run(t, values, helm, append([]string{
		"install", "counts", chart + "/charts/service", "--namespace", string(s.place), "--values=-",
		"--set=database.existingSecret=counts-pooled,database.keys.uri=uri",
		"--set=database.parameters=sslmode=disable,database.pooler=transaction",
		"--set=migrations.mode=job,autoscaling.enabled=false,networkPolicy.databasePorts={6432,5432}",
		"--set=replicas=null,autoscaling.maxReplicas=2,resources.requests.cpu=10m,migrations.resources.requests.cpu=10m",
		"--set=shutdown.preStopSeconds=2,shutdown.delaySeconds=0,shutdown.timeoutSeconds=4",
		"--set=config.REQUEST_TIMEOUT=3s,config.DB_STATEMENT_TIMEOUT=2s,config.DB_LOCK_TIMEOUT=1s",
		"--set-string=image.tag=" + s.tag,
	}, s.auth()...)...)
}

// behindPooler creates a PgBouncer with fewer connections to the server than the
// replicas have to it, a secret with its address, and the owner's with the server's.
func (s *story) behindPooler(t *T) {
	t.Helper()
	password := func(secret string) string {
		return string(fetch[core.Secret](t, "/api/v1", "secrets/"+secret, "").Data["password"])
	}
	uri := func(user, password, host string) string {
		u := url.URL{Scheme: "postgresql", User: url.UserPassword(user, password), Host: host, Path: "/rowlock"}
		return strconv.Quote(u.String())
	}

	runtime := password("rowlock-counts-db")
	apply(t, strings.NewReplacer(
		"POOLED", uri("counts", runtime, "pgbouncer:6432"),
		"DIRECT", uri("counts_owner", password("rowlock-counts-db-owner"), "postgres:5432"),
		"USERS", strconv.Quote(`"counts" "`+runtime+`"`), "IMAGE", s.pooler, "RESTRICTED", restricted,
	).Replace(read(t, "testdata/pgbouncer.yaml")))
	wait(t, time.Minute, "condition=Ready", "pod/pgbouncer")
}
