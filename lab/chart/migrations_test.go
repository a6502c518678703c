package chart

import (
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// jobs returns the Jobs.
func jobs(all objects) (found []*batch.Job) {
	for _, o := range all {
		if j, ok := o.typed.(*batch.Job); ok {
			found = append(found, j)
		}
	}
	return found
}

// In the modes init and job each service is migrated by one container with the owner's secret, and no serving container
// has that secret; at startup there is no owner. (testdata/owner-init.yaml and owner-job.yaml show one service's.)
func TestOwnersMigrateAndReplicasDoNot(t *testing.T) {
	t.Parallel()
	const owner = `-db-owner"`
	for mode, most := range map[string]int{"startup": 0, "init": len(workloads()), "job": len(targets.Names())} {
		all := render(t, umbrella, "global: {migrations: {mode: "+mode+"}}")
		migrating := 0
		for _, c := range containers(all) {
			if slices.Equal(c.Args, []string{"migrate"}) {
				migrating++
				if !strings.Contains(raw(t, c), owner) {
					t.Errorf("%s: it migrates without the owner's secret: %s", mode, raw(t, c))
				}
			} else if strings.Contains(raw(t, c), owner) {
				t.Errorf("%s: it serves with the owner's secret: %s", mode, raw(t, c))
			}
		}
		if migrating != most {
			t.Errorf("%s: %d containers migrate, want %d", mode, migrating, most)
		}

		want := "false"
		if mode == "startup" {
			want = "true"
		}
		for _, w := range workloads() {
			if got := environment(t, all, w)["MIGRATE_ON_START"]; got != want {
				t.Errorf("%s: %s gets MIGRATE_ON_START=%s, want %s", mode, w, got, want)
			}
		}
	}
}

// What a Job runs is immutable, so its name changes with that and with nothing else: an upgrade that changes nothing of
// it keeps it. Kubernetes makes a label of the name.
func TestTheJobIsNamedByWhatItRuns(t *testing.T) {
	t.Parallel()
	const byJob = "migrations: {mode: job}"
	name := func(values string) string {
		found := jobs(render(t, alone, values))
		if len(found) != 1 {
			t.Fatalf("%s: there are %d Jobs", values, len(found))
		}
		return found[0].Name
	}

	names := map[string]string{}
	for _, values := range []string{
		byJob, byJob + "\nimage: {tag: next}", byJob + "\nnodeSelector: {a: b}",
		byJob + "\nextraEnv: [{name: A, value: b}]", byJob + "\ninitContainers: [{name: proxy, image: proxy}]",
		"migrations: {mode: job, resources: {limits: {memory: 9Mi}}}", "migrations: {mode: job, existingSecret: other}",
		"migrations: {mode: job, job: {backoffLimit: 2, activeDeadlineSeconds: 7}}",
	} {
		if other, twice := names[name(values)]; twice {
			t.Errorf("%s and\n%s\nmake Jobs of one name", other, values)
		}
		names[name(values)] = values
	}

	const same = "migrations: {mode: job, job: {annotations: {wave: '1'}}}\nreplicas: 3\nconfig: {LOG_LEVEL: debug}"
	if name(same) != name(byJob) {
		t.Errorf("%s runs the same by another name", same)
	}
	long := name(byJob + "\nfullnameOverride: " + strings.Repeat("a", 50) + "-b")
	if len(long) > validation.LabelValueMaxLength {
		t.Errorf("%s has %d characters", long, len(long))
	}
}
