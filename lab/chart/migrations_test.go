package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/lab/internal/services"
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
	for name := range all {
		if strings.HasPrefix(name, "Job/rowlock-"+service+"-migrate-") {
			return get[batch.Job](t, all, name)
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

// In the modes init and job what migrates gets the owner's secrets and no serving container does, by startup there is no
// owner. What serves and what migrates verify the database's certificate, and show their own where the server asks for it,
// with a key that the driver accepts.
func TestOwnersMigrateAndReplicasDoNot(t *testing.T) {
	t.Parallel()
	ofEach := valuesOfEach("%[1]s: {database: {clientCertSecret: rowlock-%[1]s-cert, passwordFile: true}}")
	for _, mode := range []string{startup, byInit, byJob} {
		values := fmt.Sprintf("global: {migrations: {mode: %s}, database: {caSecret: rowlock-db-ca}}\n%s", mode, ofEach)
		all := render(t, umbrella, values)
		for _, service := range services.All() {
			name := "rowlock-" + service.Name
			mine := slices.Sorted(slices.Values([]string{name + "-cert", name + "-db", "rowlock-db-ca"}))
			for _, w := range service.Workloads() {
				pod := get[apps.Deployment](t, all, "Deployment/"+name+w).Spec.Template.Spec
				restricted(t, name+w, pod)
				verifies(t, name+w, pod, pod.Containers[0])
				got := slices.DeleteFunc(reads(pod, pod.Containers[0]), func(s string) bool { return strings.HasSuffix(s, "-fingerprint") })
				if !slices.Equal(got, mine) {
					t.Errorf("%s: %s%s serves with the secrets %v, want %v", mode, name, w, got, mine)
				}
				env := environment(t, all, name+w)
				if _, owner := env["MIGRATE_DATABASE_URL"]; owner || env["MIGRATE_ON_START"] != fmt.Sprint(mode == startup) {
					t.Errorf("%s: %s%s gets MIGRATE_ON_START=%s, MIGRATE_DATABASE_URL %t", mode, name, w, env["MIGRATE_ON_START"], owner)
				}
				if text := string(raw(t, pod)); mode != byInit && strings.Contains(text, "-owner") {
					t.Errorf("%s: %s%s names an owner's secret: %s", mode, name, w, text)
				}
				switch mode {
				case byInit:
					migrates(t, pod, pod.InitContainers, pod.Containers[0].Image, name)
				case byJob:
					of := job(t, all, service.Name).Spec.Template.Spec
					migrates(t, of, of.Containers, pod.Containers[0].Image, name)
				}
				if n := len(pod.InitContainers); (n > 0) != (mode == byInit) {
					t.Errorf("%s: %s%s has %d init containers", mode, name, w, n)
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
	owners := slices.Sorted(slices.Values([]string{name + "-cert-owner", name + "-db-owner", "rowlock-db-ca"}))
	if got := reads(pod, c); !slices.Equal(got, owners) || c.Image != image || !slices.Equal(c.Args, []string{"migrate"}) {
		t.Errorf("%s %v migrates with the secrets %v, want %v", c.Image, c.Args, got, owners)
	}
}

// verifies demands that a container's URL verifies the server and names the client's certificate, where they are mounted.
func verifies(t *testing.T, name string, pod core.PodSpec, c core.Container) {
	t.Helper()
	const files = "sslmode=verify-full&sslrootcert=/etc/database-ca/ca.crt" +
		"&sslcert=/etc/database-client/tls.crt&sslkey=/etc/database-client/tls.key"
	if url := c.Env[slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == "DATABASE_URL" })]; !strings.Contains(
		url.Value, "?"+files) {
		t.Errorf("%s connects by %s", name, url.Value)
	}
	for path, keys := range map[string][]string{"/etc/database-ca": {"ca.crt"}, "/etc/database-client": {"tls.crt", "tls.key"}} {
		m := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == path && m.ReadOnly })
		if m < 0 {
			t.Fatalf("%s: %s is not mounted: %s", name, path, raw(t, c.VolumeMounts))
		}
		v := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == c.VolumeMounts[m].Name })].Secret
		var got []string
		for _, item := range v.Items {
			got = append(got, item.Path)
		}
		// lib/pq takes a key of root's, which a secret's files are, with 0640 or less; fsGroup may read it then.
		private := v.DefaultMode != nil && *v.DefaultMode == 0o440 && *pod.SecurityContext.FSGroup == 65532
		if !slices.Equal(got, keys) || len(keys) == 2 && !private {
			t.Errorf("%s: %s has %s, and fsGroup %v", name, path, raw(t, v), pod.SecurityContext.FSGroup)
		}
	}
}

// Where the platform chooses the group, the chart names none; without a client certificate it never does.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	const certificate = "database: {clientCertSecret: cert}"
	for values, want := range map[string]any{
		"": nil, certificate: 65532, certificate + "\npodSecurityContext: {fsGroup: 0}": nil,
		"migrations: {mode: init, clientCertSecret: owner}\npodSecurityContext: {fsGroup: 7}": 7,
	} {
		got := at(render(t, alone, values)["Deployment/rowlock"].plain, pod+"securityContext.fsGroup")
		if string(raw(t, got)) != string(raw(t, want)) {
			t.Errorf("%s: fsGroup is %v, want %v", values, got, want)
		}
	}
}

// The Job is a plain one, with a service account of its own. What a Job runs is immutable, so its name changes with it and
// with nothing else: the same values make the same object, and an upgrade that changes nothing of it keeps it.
func TestTheJobIsNamedByWhatItRuns(t *testing.T) {
	t.Parallel()
	const mode = "migrations: {mode: job"
	names := map[string]string{}
	for _, values := range []string{
		mode + "}", mode + "}\nimage: {tag: next}", mode + ", resources: {limits: {memory: 9Mi}}}", mode + ", existingSecret: other}",
		mode + ", job: {backoffLimit: 2, activeDeadlineSeconds: 7}}", mode + "}\nnodeSelector: {a: b}", mode + "}\nextraEnv: [{name: A, value: b}]",
	} {
		for name, o := range render(t, alone, values) {
			if j, ok := o.typed.(*batch.Job); ok {
				if other, twice := names[name]; twice {
					t.Errorf("%s and\n%s\nmake Jobs of one name, %s", other, values, name)
				}
				names[name] = values
				spec := j.Spec
				tries, seconds := int32(6), int64(3600)
				if strings.Contains(values, "backoffLimit") {
					tries, seconds = 2, 7
				}
				if spec.TTLSecondsAfterFinished != nil || *spec.BackoffLimit != tries || *spec.ActiveDeadlineSeconds != seconds ||
					spec.Template.Spec.ServiceAccountName != "rowlock-migrate" {
					t.Errorf("the Job's spec is %s", raw(t, spec))
				}
			}
		}
	}
	if len(names) != 7 {
		t.Errorf("seven values made %v", names)
	}
	for name, o := range render(t, alone, mode+", job: {annotations: {wave: '1'}}}\nreplicas: 3\nconfig: {LOG_LEVEL: debug}") {
		if _, ok := o.typed.(*batch.Job); !ok {
			continue
		}
		if names[name] != mode+"}" || at(o.plain, "metadata.annotations.wave") != "1" {
			t.Errorf("%s runs the same by another name, or has no annotation: %s", name, raw(t, o.plain))
		}
	}
}

// A NetworkPolicy is about the Job's pod as about a replica's; no Service, disruption budget or Deployment is.
func TestTheJobsPodIsNoReplica(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, "global: {migrations: {mode: job}}")
	for _, service := range services.Names() {
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
