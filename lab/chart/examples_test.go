package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// The values of charts/rowlock/examples render for all services: the database's server is verified by ca.crt and
// nothing else of its secret, replicas do not migrate, and their way out to the database is narrower than the default.
func TestExamples(t *testing.T) {
	t.Parallel()
	migrates := map[string]int{"cloudnativepg.yaml": 1, "managed-postgresql.yaml": 0} // init containers of a replica
	for example, want := range migrates {
		all := renderAlike(t, umbrella, read(t, umbrella+"/examples/"+example))
		for _, service := range services.All() {
			for _, w := range service.Workloads() {
				name := "rowlock-" + service.Name + w
				spec := get[apps.Deployment](t, all, "Deployment/"+name).Spec.Template.Spec
				if len(spec.InitContainers) != want {
					t.Errorf("%s: %s has %d init containers, want %d", example, name, len(spec.InitContainers), want)
				}
				if url := environment(t, all, name)["DATABASE_URL"]; !strings.Contains(url, "sslmode=verify-full") {
					t.Errorf("%s: %s connects to %s", example, name, url)
				}
				if ca := spec.Volumes[0].Secret; len(ca.Items) != 1 || ca.Items[0].Key != "ca.crt" {
					t.Errorf("%s: %s mounts of the CA's secret %s", example, name, raw(t, ca))
				}
			}
			out := get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+service.Name).Spec.Egress[1]
			if out.Ports[0].Port.IntValue() != 5432 || len(out.To) != 1 {
				t.Errorf("%s: %s reaches the database by %s", example, service.Name, raw(t, out))
			}
		}
	}
	if n := len(glob(t, umbrella+"/examples/*.yaml")); n != len(migrates)+1 {
		t.Errorf("%d examples, of which %d and migrate-job.yaml are tested", n, len(migrates))
	}
}

// The Job of the examples does what the chart's init container does, with the same secret.
func TestTheMigrationJobIsTheInitContainer(t *testing.T) {
	t.Parallel()
	const job = "migrate-job.yaml"
	example, err := decode(read(t, filepath.Join(umbrella, "examples", job)))
	if err != nil {
		t.Fatal(err)
	}
	got := get[batch.Job](t, example, "Job/counts-migrate").Spec.Template.Spec
	restricted(t, job, got)
	all := renderAlike(t, umbrella, read(t, "../../k8s/values.yaml"))
	pod := get[apps.Deployment](t, all, "Deployment/rowlock-counts").Spec.Template.Spec
	c, want := got.Containers[0], pod.InitContainers[0]
	mounted := slices.DeleteFunc(slices.Clone(pod.Volumes), func(v core.Volume) bool {
		return !slices.ContainsFunc(want.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == v.Name })
	})
	for what, pair := range map[string][2]any{
		"image": {c.Image, want.Image}, "args": {c.Args, want.Args}, "env": {c.Env, want.Env},
		"resources": {c.Resources, want.Resources}, "mounts": {c.VolumeMounts, want.VolumeMounts},
		"security": {c.SecurityContext, want.SecurityContext}, "volumes": {got.Volumes, mounted},
	} {
		if a, b := string(raw(t, pair[0])), string(raw(t, pair[1])); a != b {
			t.Errorf("%s: %s\n%s\nof the init container\n%s", job, what, a, b)
		}
	}
}
