package chart

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The modes of migrations.
const (
	startup = "startup"
	byInit  = "init"
	byJob   = "job"
)

// job returns the Job of a service's migrations.
func job(t *testing.T, all objects, service string) *batch.Job {
	t.Helper()
	for name, j := range jobs(all) {
		if strings.HasPrefix(name, "rowlock-"+service+"-migrate-") {
			return j
		}
	}
	t.Fatalf("there is no Job of %s, but %v", service, slices.Sorted(maps.Keys(all)))
	return nil
}

// reads returns the secrets that a container of the pod gets, by variables or by files.
func reads(pod core.PodSpec, c core.Container) (secrets []string) {
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			secrets = append(secrets, v.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			secrets = append(secrets, from.SecretRef.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name })
		if i >= 0 && pod.Volumes[i].Secret != nil {
			secrets = append(secrets, pod.Volumes[i].Secret.SecretName)
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// sorted returns its arguments in order.
func sorted(names ...string) []string {
	slices.Sort(names)
	return names
}

// In the modes init and job what migrates gets the owner's secrets and no serving container does; by startup there is
// no owner. All of them verify the database's certificate and show one of their own.
func TestOwnersMigrateAndReplicasDoNot(t *testing.T) {
	t.Parallel()
	ofEach := valuesOfEach("%[1]s: {database: {clientCertSecret: rowlock-%[1]s-cert, passwordFile: true}}")
	for _, mode := range []string{startup, byInit, byJob} {
		values := fmt.Sprintf("global: {migrations: {mode: %s}, database: {caSecret: rowlock-db-ca}}\n%s", mode, ofEach)
		all := render(t, umbrella, values)
		for _, service := range targets.All() {
			name := "rowlock-" + service.Name
			mine := sorted(name+"-cert", name+"-db", "rowlock-db-ca")
			for _, w := range service.Workloads() {
				what := mode + ": " + name + w
				pod := get[apps.Deployment](t, all, "Deployment/"+name+w).Spec.Template.Spec
				serve := pod.Containers[0]
				restricted(t, what, pod)
				verifies(t, what, pod, serve)
				got := slices.DeleteFunc(reads(pod, serve), func(s string) bool { return strings.HasSuffix(s, "-fingerprint") })
				if !slices.Equal(got, mine) {
					t.Errorf("%s serves with the secrets %v, want %v", what, got, mine)
				}
				env := environment(t, all, name+w)
				_, owner := env["MIGRATE_DATABASE_URL"]
				if owner || env["MIGRATE_ON_START"] != strconv.FormatBool(mode == startup) {
					t.Errorf("%s gets MIGRATE_ON_START=%s, MIGRATE_DATABASE_URL %t", what, env["MIGRATE_ON_START"], owner)
				}
				if text := string(raw(t, pod)); mode != byInit && strings.Contains(text, "-owner") {
					t.Errorf("%s names an owner's secret: %s", what, text)
				}
				switch mode {
				case byInit:
					migrates(t, pod, pod.InitContainers, serve.Image, name)
				case byJob:
					of := job(t, all, service.Name).Spec.Template.Spec
					migrates(t, of, of.Containers, serve.Image, name)
				}
				if n := len(pod.InitContainers); (n > 0) != (mode == byInit) {
					t.Errorf("%s has %d init containers", what, n)
				}
			}
		}
	}
}

// migrates demands that the one container migrates as the owner, restricted as all.
func migrates(t *testing.T, pod core.PodSpec, containers []core.Container, image, name string) {
	t.Helper()
	if len(containers) != 1 {
		t.Fatalf("%d containers migrate %s", len(containers), name)
	}
	c := containers[0]
	pod.Containers = containers
	restricted(t, name+", migrate", pod)
	verifies(t, name+", migrate", pod, c)
	owners := sorted(name+"-cert-owner", name+"-db-owner", "rowlock-db-ca")
	if got := reads(pod, c); !slices.Equal(got, owners) || c.Image != image || !slices.Equal(c.Args, []string{"migrate"}) {
		t.Errorf("%s %v migrates with the secrets %v, want %v", c.Image, c.Args, got, owners)
	}
}

// verifies demands that a container's URL names the CA's certificate and the client's, where they are mounted.
func verifies(t *testing.T, name string, pod core.PodSpec, c core.Container) {
	t.Helper()
	const files = "?sslmode=verify-full&sslrootcert=/etc/database-ca/ca.crt" +
		"&sslcert=/etc/database-client/tls.crt&sslkey=/etc/database-client/tls.key"
	i := slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == "DATABASE_URL" })
	if url := c.Env[i].Value; !strings.Contains(url, files) {
		t.Errorf("%s connects by %s", name, url)
	}
	for path, keys := range map[string][]string{
		"/etc/database-ca": {"ca.crt"}, "/etc/database-client": {"tls.crt", "tls.key"},
	} {
		m := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == path && m.ReadOnly })
		if m < 0 {
			t.Fatalf("%s: %s is not mounted: %s", name, path, raw(t, c.VolumeMounts))
		}
		v := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == c.VolumeMounts[m].Name })
		secret := pod.Volumes[v].Secret
		var got []string
		for _, item := range secret.Items {
			got = append(got, item.Path)
		}
		// lib/pq takes a key of root's, which a secret's files are, with 0640 or less; fsGroup may read it then.
		group := pod.SecurityContext.FSGroup
		private := secret.DefaultMode != nil && *secret.DefaultMode == 0o440 && group != nil && *group == 65532
		if !slices.Equal(got, keys) || len(keys) == 2 && !private {
			t.Errorf("%s: %s has %s, and fsGroup is %s", name, path, raw(t, secret), raw(t, group))
		}
	}
}

// Where the platform chooses the group, the chart names none; without a client certificate it never does.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	const certificate = "database: {clientCertSecret: cert}"
	for values, want := range map[string]string{
		"": "null", certificate: "65532", certificate + "\npodSecurityContext: {fsGroup: 0}": "null",
		"migrations: {mode: init, clientCertSecret: owner}\npodSecurityContext: {fsGroup: 7}": "7",
	} {
		got := at(render(t, alone, values)["Deployment/rowlock"].plain, pod+"securityContext.fsGroup")
		if string(raw(t, got)) != want {
			t.Errorf("%s: fsGroup is %v, want %s", values, got, want)
		}
	}
}

// jobs returns the Jobs by their names.
func jobs(all objects) map[string]*batch.Job {
	found := map[string]*batch.Job{}
	for _, o := range all {
		if j, ok := o.typed.(*batch.Job); ok {
			found[j.Name] = j
		}
	}
	return found
}

// The Job is a plain one, with a service account of its own. What a Job runs is immutable, so its name changes with
// that and with nothing else: an upgrade that changes nothing of it keeps it.
func TestTheJobIsNamedByWhatItRuns(t *testing.T) {
	t.Parallel()
	const byJob = "migrations: {mode: job}"
	names := map[string]string{}
	for _, values := range []string{
		byJob, byJob + "\nimage: {tag: next}", byJob + "\nnodeSelector: {a: b}",
		byJob + "\nextraEnv: [{name: A, value: b}]", byJob + "\ninitContainers: [{name: proxy, image: proxy}]",
		"migrations: {mode: job, resources: {limits: {memory: 9Mi}}}", "migrations: {mode: job, existingSecret: other}",
		"migrations: {mode: job, job: {backoffLimit: 2, activeDeadlineSeconds: 7}}",
	} {
		for name, j := range jobs(render(t, alone, values)) {
			if other, twice := names[name]; twice {
				t.Errorf("%s and\n%s\nmake Jobs of one name, %s", other, values, name)
			}
			names[name] = values
			tries, seconds := int32(6), int64(3600)
			if strings.Contains(values, "backoffLimit") {
				tries, seconds = 2, 7
			}
			if j.Spec.TTLSecondsAfterFinished != nil || *j.Spec.BackoffLimit != tries ||
				*j.Spec.ActiveDeadlineSeconds != seconds || j.Spec.Template.Spec.ServiceAccountName != "rowlock-migrate" {
				t.Errorf("the Job's spec is %s", raw(t, j.Spec))
			}
		}
	}
	if len(names) != 8 {
		t.Errorf("eight values made %v", names)
	}
	long := byJob + "\nfullnameOverride: " + strings.Repeat("a", 50) + "-b"
	for name := range jobs(render(t, alone, long)) {
		if len(name) > validation.LabelValueMaxLength {
			t.Errorf("the Job's name has %d characters, and Kubernetes makes a label of it", len(name))
		}
	}
	const same = "migrations: {mode: job, job: {annotations: {wave: '1'}}}\nreplicas: 3\nconfig: {LOG_LEVEL: debug}"
	for name, j := range jobs(render(t, alone, same)) {
		if names[name] != byJob || j.Annotations["wave"] != "1" {
			t.Errorf("%s runs the same by another name, or has no annotation: %v", name, j.Annotations)
		}
	}
}

// A mesh is kept from the Job's pod by labels and annotations that no replica has.
func TestTheJobsPodHasItsOwnMetadata(t *testing.T) {
	t.Parallel()
	const own = "{inject: 'false'}"
	all := render(t, umbrella, "global: {migrations: {mode: job}}\n"+
		"counts: {podLabels: {team: x}, migrations: {job: {podLabels: "+own+", podAnnotations: "+own+"}}}")
	migrates := job(t, all, targets.Counts).Spec.Template
	if got := migrates.Labels["team"] + " " + migrates.Labels["inject"]; got != "x false" {
		t.Errorf("the labels team and inject are %q, want x false", got)
	}
	if got := migrates.Annotations["inject"]; got != "false" {
		t.Errorf("the annotation inject is %q, want false", got)
	}
	serves := get[apps.Deployment](t, all, "Deployment/rowlock-counts").Spec.Template
	if _, found := serves.Labels["inject"]; found {
		t.Errorf("the replicas' labels are %v", serves.Labels)
	}
	if _, found := serves.Annotations["inject"]; found {
		t.Errorf("the replicas' annotations are %v", serves.Annotations)
	}
}

// A NetworkPolicy is about the Job's pod as about a replica's; no Service, disruption budget or Deployment is.
func TestTheJobsPodIsNoReplica(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, "global: {migrations: {mode: job}}")
	for _, service := range targets.Names() {
		pod := labels.Set(job(t, all, service).Spec.Template.Labels)
		for name, o := range all {
			var of *meta.LabelSelector
			wanted := false
			switch o := o.typed.(type) {
			case *networking.NetworkPolicy:
				of, wanted = &o.Spec.PodSelector, name == "NetworkPolicy/rowlock-"+service
			case *apps.Deployment:
				of = o.Spec.Selector
			case *policy.PodDisruptionBudget:
				of = o.Spec.Selector
			case *core.Service:
				of = &meta.LabelSelector{MatchLabels: o.Spec.Selector}
			default:
				continue
			}
			selector, err := meta.LabelSelectorAsSelector(of)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Matches(pod) != wanted {
				t.Errorf("%s selects the Job's pod of %s: %t, want %t", name, service, !wanted, wanted)
			}
		}
		account := get[core.ServiceAccount](t, all, "ServiceAccount/rowlock-"+service+"-migrate")
		if *account.AutomountServiceAccountToken {
			t.Errorf("%s gets a token", account.Name)
		}
	}
}
