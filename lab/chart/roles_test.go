package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// With k8s/values.yaml each service migrates as its owner in an init container, no serving container gets the owner's
// secret, and both verify the database's certificate.
func TestOwnersMigrateAndReplicasDoNot(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, read(t, "../../k8s/values.yaml"))
	for _, w := range workloads() {
		pod := get[apps.Deployment](t, all, "Deployment/"+w).Spec.Template.Spec
		restricted(t, w, pod)
		if len(pod.InitContainers) != 1 {
			t.Fatalf("%s has %d init containers", w, len(pod.InitContainers))
		}
		migrate, serve := pod.InitContainers[0], pod.Containers[0]
		pod.Containers = pod.InitContainers
		restricted(t, w+", migrate", pod)
		if migrate.Image != serve.Image || migrate.Args[0] != "migrate" {
			t.Errorf("%s: %s %v migrates", w, migrate.Image, migrate.Args)
		}
		for who, c := range map[string]core.Container{"-owner": migrate, "": serve} {
			secrets := map[string]string{} // of each variable
			for _, v := range c.Env {
				secrets[v.Name] = v.Value
				if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
					secrets[v.Name] = v.ValueFrom.SecretKeyRef.Name
					if owner := strings.HasSuffix(secrets[v.Name], "-owner"); owner != (who != "") {
						t.Errorf("%s: %s gets %s of %s", w, c.Args, v.Name, secrets[v.Name])
					}
				}
			}
			ca := func(m core.VolumeMount) bool { return m.MountPath == "/etc/database-ca" }
			if !strings.HasSuffix(secrets["DATABASE_URL"], "?sslmode=verify-full&sslrootcert=/etc/database-ca/ca.crt") ||
				!slices.ContainsFunc(c.VolumeMounts, ca) {
				t.Errorf("%s: %s connects to %s with %v", w, c.Args, secrets["DATABASE_URL"], c.VolumeMounts)
			}
			// What k8s/roles.sh makes.
			if service := strings.Split(w, "-")[1]; secrets["PGPASSWORD"] != "rowlock-"+service+"-db"+who {
				t.Errorf("%s: there is no secret %q", w, secrets["PGPASSWORD"])
			}
		}
		if got := environment(t, all, w)["MIGRATE_ON_START"]; got != "false" {
			t.Errorf("%s: MIGRATE_ON_START is %s", w, got)
		}
	}
}

// The limits that the notes print for the runtime roles are what the chart counts. All fit the server of
// k8s/postgres.yaml.
func TestConnectionLimitsAreTheBudget(t *testing.T) {
	t.Parallel()
	most := 100 // as PostgreSQL ships
	if _, set, found := strings.Cut(read(t, "../../k8s/postgres.yaml"), "-cmax_connections="); found {
		if _, err := fmt.Sscan(set, &most); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, helm4, "", "install", release, umbrella, "--dry-run=client")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, service := range services.Names() {
		args := make([]string, 0, len(services.Names()))
		for _, other := range services.Names() {
			args = append(args, fmt.Sprintf("--set=%s.enabled=%t", other, other == service))
		}
		need := connections(t, render(t, umbrella, "", args...))
		if note := fmt.Sprintf(" %s %d", service, need); !strings.Contains(out, note) {
			t.Errorf("the notes lack %q:\n%s", note, out)
		}
		sum += need
	}
	if sum > most-3 { // superuser_reserved_connections
		t.Errorf("all roles together may open %d connections of %d", sum, most)
	}
}
