package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// The generic chart, released alone with the umbrella's values of a service, as README.md shows it, renders the same
// pod under the release's own name.
func TestOneServiceAlone(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		together := render(t, helm, umbrella, "global: {database: {parameters: sslmode=disable}}")
		for _, registered := range services.All() {
			service := registered.Name
			values, err := run(t, helm, "", "show", "values", umbrella, "--jsonpath", "{."+service+"}")
			if err != nil {
				t.Fatal(err)
			}
			manifests, err := run(t, helm, values, "template", service, alone, "--kube-version="+kubernetes, "--namespace=ns",
				"--values=-", "--set=database.parameters=sslmode=disable")
			if err != nil {
				t.Fatalf("%s: %v", service, err)
			}
			got := decode(t, manifests)
			for _, w := range registered.Workloads() {
				want := get[apps.Deployment](t, together, "Deployment/rowlock-"+service+w).Spec.Template.Spec
				mine := get[apps.Deployment](t, got, "Deployment/"+service+w).Spec.Template.Spec
				a, b := strings.ReplaceAll(string(raw(t, mine)), "rowlock-", ""), strings.ReplaceAll(string(raw(t, want)),
					"rowlock-", "")
				if b = strings.ReplaceAll(b, `io/instance":"rowlock"`, `io/instance":"`+service+`"`); a != b {
					t.Errorf("%s%s alone is\n%s\ntogether\n%s", service, w, a, b)
				}
			}
		}
	})
}

// A service alone has the same budget of connections.
func TestTheBudgetOfOneServiceAlone(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		// (6 + 1 of surge + 1 that is ending) x (7 + 7 - 3)
		values := bare + "\ndatabase: {existingSecret: db, secondPool: {enabled: true, smallerBy: 3}, maxConnections: "
		values = strings.Replace(values, "database: {existingSecret: db}\n", "", 1)
		if _, err := template(t, helm, alone, values+"88}"); err != nil {
			t.Error(err)
		}
		_, err := template(t, helm, alone, values+"87}")
		want := "the replicas may open 88 connections, and database.maxConnections says that there are 87"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// The Job in README.md is valid.
func TestTheMigrationJobOfTheReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(umbrella + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```yaml\n")
	manifest, _, _ := strings.Cut(rest, "\n```\n")
	job := get[batch.Job](t, decode(t, manifest), "Job/counts-migrate").Spec.Template.Spec
	c := job.Containers[0]
	if c.Args[0] != "migrate" || !*c.SecurityContext.ReadOnlyRootFilesystem || !*job.SecurityContext.RunAsNonRoot {
		t.Errorf("the Job is %+v", job)
	}
}

// The notes after an installation. They are rendered by Helm 4: Helm 3 built as a Go tool assumes Kubernetes 1.20,
// which the chart refuses.
func TestNotes(t *testing.T) {
	t.Parallel()
	paths, err := helms()
	if err != nil {
		t.Fatal(err)
	}
	needed := connections(t, render(t, paths["helm4"], umbrella, "{}"))
	for values, want := range map[string][]string{
		"{}": {
			"counts  http://rowlock-counts.default.svc:80", "counts, internal  http://rowlock-counts-internal.default.svc:8081",
			fmt.Sprintf("Connections: at most %d of 400", needed), "helm test rowlock",
		},
		fmt.Sprintf("global: {database: {maxConnections: %d}}", needed): {"WARNING: that is more than 95 %"},
		"global: {database: {pooler: transaction}}": {
			"WARNING: iidy migrates through the pooler", "WARNING: behind a pooler payments' ledger needs a pool of its own",
		},
		"payments: {secretEnv: {FINGERPRINT_SECRET: {existingSecret: ''}}}": {
			"WARNING: payments runs without FINGERPRINT_SECRET",
		},
	} {
		out, err := run(t, paths["helm4"], values, "install", release, umbrella, "--dry-run=client", "--values=-")
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, line := range want {
			if !strings.Contains(notes, line) {
				t.Errorf("%s: the notes lack %q:\n%s", values, line, notes)
			}
		}
		if values == "{}" && strings.Contains(notes, "WARNING") {
			t.Errorf("the defaults warn:\n%s", notes)
		}
	}
}
