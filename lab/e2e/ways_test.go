//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// byHelm4 installs from nothing by Helm 4 alone, which applies on the server's side.
func (s *story) byHelm4(t *testing.T) {
	helm := s.helms[1]
	args := append([]string{"install", release, chart, "--wait", "--timeout=3m"}, s.values()...)
	if _, err := command(t.Context(), "", helm, args...); err != nil {
		t.Fatal(err)
	}
	s.check(t, helm)
	s.uninstall(t, helm)
}

// byKubectl uses Helm to render and for nothing else.
func (s *story) byKubectl(t *testing.T) {
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

// alone releases the generic chart by itself, with replicas that may not migrate: the Job of the chart's README does.
func (s *story) alone(t *testing.T) {
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
	wait(t, time.Minute, "condition=Complete", "job/counts-migrate")
	helm := s.helms[1]
	values, err := command(t.Context(), "", helm, "show", "values", chart, "--jsonpath", "{.counts}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), values, helm, "install", "counts", chart+"/charts/service", "--namespace", namespace, "--values=-",
		"--set=database.parameters=sslmode=disable,migrations.mode=none,autoscaling.enabled=false", "--set-string=image.tag="+s.tag); err != nil {
		t.Fatal(err)
	}
	must(t, "rollout", "status", "deployment/counts", "--timeout=2m")
	out := must(t, "exec", "client", "--", "sh", "-c",
		`curl -s -H 'Content-Type: application/json' -d '{"itemId":"alone"}' http://counts-internal:8081/api/v1/internal/counts && `+
			`curl -s -X POST http://counts/api/v1/counts/alone/increase`)
	if !strings.Contains(out, `{"itemId":"alone","value":1}`) {
		t.Errorf("counts alone answers %s", out)
	}
	if _, err := command(t.Context(), "", helm, "uninstall", "counts", "--namespace", namespace, "--wait"); err != nil {
		t.Fatal(err)
	}
}
