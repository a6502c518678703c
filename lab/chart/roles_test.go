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
	database := postgresOfTests(t)
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
				if v.ValueFrom != nil {
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
			// What it names is in k8s/postgres.yaml.
			if _, ok := database["Secret/"+secrets["PGPASSWORD"]]; !ok {
				t.Errorf("%s: there is no secret %q", w, secrets["PGPASSWORD"])
			}
		}
		if got := environment(t, all, w)["MIGRATE_ON_START"]; got != "false" {
			t.Errorf("%s: MIGRATE_ON_START is %s", w, got)
		}
	}
}

func postgresOfTests(t *testing.T) objects {
	t.Helper()
	all, err := decode(read(t, "../../k8s/postgres.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// k8s/postgres.yaml makes its roles by k8s/roles.psql. The limits of the runtime roles are what the chart counts and
// its notes print; with those of the owners they fit the server.
func TestConnectionLimitsAreTheBudget(t *testing.T) {
	t.Parallel()
	data := get[core.ConfigMap](t, postgresOfTests(t), "ConfigMap/postgres-roles").Data
	script := read(t, "../../k8s/roles.psql")
	if strings.TrimSpace(data["roles.psql"]) != strings.TrimSpace(script) {
		t.Error("k8s/postgres.yaml has another roles.psql than k8s/: copy it")
	}
	out, err := run(t, helm4, "", "install", release, umbrella, "--dry-run=client")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, service := range services.Names() {
		of, owner := 0, 0
		_, made, _ := strings.Cut(data["all.sql"], `\set service `+service+"\n")
		_, limit, _ := strings.Cut(script, `:"owner" LOGIN CONNECTION LIMIT `)
		if _, err := fmt.Sscanf(made, `\set connections %d`, &of); err != nil {
			t.Fatalf("%s: %v in %q", service, err, made)
		}
		if _, err := fmt.Sscan(limit, &owner); err != nil {
			t.Fatal(err)
		}
		args := make([]string, 0, len(services.Names()))
		for _, other := range services.Names() {
			args = append(args, fmt.Sprintf("--set=%s.enabled=%t", other, other == service))
		}
		if need := connections(t, render(t, umbrella, "", args...)); of != need {
			t.Errorf("%s has a CONNECTION LIMIT of %d, and may open %d", service, of, need)
		}
		if note := fmt.Sprintf(" %s %d", service, of); !strings.Contains(out, note) {
			t.Errorf("the notes lack %q:\n%s", note, out)
		}
		sum += of + owner
	}
	if sum > 400-3 { // superuser_reserved_connections
		t.Errorf("all roles together may open %d connections of 400", sum)
	}
}
