package chart

import (
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// The values of charts/rowlock/examples render for all services: the database's server is verified by ca.crt and
// nothing else of its secret, replicas do not migrate, and their way out to the database is narrower than the default.
func TestExamples(t *testing.T) {
	t.Parallel()
	// Init containers of a replica; without one there is a Job.
	migrates := map[string]int{"cloudnativepg.yaml": 1, "managed-postgresql.yaml": 0}
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
			if want == 0 {
				job(t, all, service.Name)
			}
			out := get[networking.NetworkPolicy](t, all, "NetworkPolicy/rowlock-"+service.Name).Spec.Egress[1]
			if out.Ports[0].Port.IntValue() != 5432 || len(out.To) != 1 {
				t.Errorf("%s: %s reaches the database by %s", example, service.Name, raw(t, out))
			}
		}
	}
	if n := len(glob(t, umbrella+"/examples/*.yaml")); n != len(migrates) {
		t.Errorf("%d examples, of which %d are tested", n, len(migrates))
	}
}
