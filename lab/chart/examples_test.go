package chart

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The values of charts/rowlock/examples render for all services: the database's server is verified by ca.crt and
// nothing else of its secret, replicas do not migrate, and their way out to the database is narrower than the default.
func TestExamples(t *testing.T) {
	t.Parallel()
	// Init containers of a replica; without one there is a Job.
	migrates := map[string]int{"cloudnativepg.yaml": 1, "managed-postgresql.yaml": 0}
	for example, want := range migrates {
		all := renderAlike(t, umbrella, read(t, umbrella+"/examples/"+example))
		for _, service := range targets.All() {
			for _, w := range service.Workloads() {
				name := "rowlock-" + service.Name + w
				spec := get[apps.Deployment](t, all, "Deployment/"+name).Spec.Template.Spec
				if len(spec.InitContainers) != want {
					t.Errorf("%s: %s has %d init containers, want %d", example, name, len(spec.InitContainers), want)
				}
				if url := environment(t, all, name)["DATABASE_URL"]; !strings.Contains(url, "sslmode=verify-full") {
					t.Errorf("%s: %s connects to %s", example, name, url)
				}
				if url := environment(t, all, name)["DATABASE_URL"]; example == "cloudnativepg.yaml" &&
					!strings.Contains(url, "&target_session_attrs=read-write") {
					t.Errorf("%s: %s keeps sessions on a standby, by %s", example, name, url)
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
	if n := len(glob(t, umbrella+"/examples/*.yaml")); n != len(migrates)+3 {
		t.Errorf("%d examples, of which %d, %s, %s and %s are tested", n, len(migrates), kedaExample, citusExample,
			secretsExample)
	}
}

const citusExample = "citus.yaml"

// On Citus the replicas and the Jobs that migrate say so alike, each with a pool of its own; the other services are on
// primaries.
func TestCitusServesCountsAndIidy(t *testing.T) {
	t.Parallel()
	all := renderAlike(t, umbrella, read(t, umbrella+"/examples/"+citusExample))
	for _, service := range targets.All() {
		want, size := "", "3" // the default
		if service.Name == targets.Counts || service.Name == targets.Iidy {
			want, size = "citus", "16"
		}
		env := environment(t, all, "rowlock-"+service.Name)
		if env["DB_CLUSTER"] != want || env["DB_MAX_OPEN_CONNS"] != size {
			t.Errorf("%s: DB_CLUSTER=%q with %s connections, want %q with %s",
				service.Name, env["DB_CLUSTER"], env["DB_MAX_OPEN_CONNS"], want, size)
		}
		from := job(t, all, service.Name).Spec.Template.Spec.Containers[0].EnvFrom
		config := get[core.ConfigMap](t, all, "ConfigMap/"+from[0].ConfigMapRef.Name).Data
		if config["DB_CLUSTER"] != want || config["MIGRATE_ON_START"] != "false" {
			t.Errorf("the Job of %s has %v", service.Name, config)
		}
	}
}

// kedaExample has values and a ScaledObject, whose kind decode does not know.
const kedaExample = "keda.yaml"

// scaledObject is the part of KEDA's kind that the example uses.
type scaledObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int `json:"minReplicaCount"`
		MaxReplicaCount int `json:"maxReplicaCount"`
		Fallback        struct {
			FailureThreshold int `json:"failureThreshold"`
			Replicas         int `json:"replicas"`
		} `json:"fallback"`
		Triggers []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// divide returns the objects of Kubernetes' own kinds, and those of a kind that decode does not know.
func divide[T any](t *testing.T, manifests, kind string) (objects, []T) {
	t.Helper()
	var known []string
	var others []T
	for document := range strings.SplitSeq(manifests, "\n---") {
		if !strings.Contains(document, "\nkind: "+kind+"\n") {
			known = append(known, document)
			continue
		}
		var other T
		if err := yaml.UnmarshalStrict([]byte(document), &other); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
	}
	all, err := decode(strings.Join(known, "\n---"))
	if err != nil {
		t.Fatal(err)
	}
	if len(others) == 0 {
		t.Fatalf("there is no %s", kind)
	}
	return all, others
}

// KEDA scales events' workers by a metric that they have, up to the number that the budget counts, and the chart leaves
// the number of replicas to it.
func TestKEDAScalesTheWorkers(t *testing.T) {
	t.Parallel()
	values := read(t, umbrella+"/examples/"+kedaExample)
	manifests, err := template(t, helm4, umbrella, values)
	if err != nil {
		t.Fatal(err)
	}
	all, of := divide[scaledObject](t, manifests, "ScaledObject")
	keda := of[0]
	const workers = "rowlock-events-work"
	if d := get[apps.Deployment](t, all, "Deployment/"+workers); keda.Spec.ScaleTargetRef.Name != d.Name ||
		d.Spec.Replicas != nil {
		t.Errorf("KEDA scales %s, and %s has replicas: %s", keda.Spec.ScaleTargetRef.Name, d.Name, raw(t, d.Spec.Replicas))
	}
	if _, ours := all["HorizontalPodAutoscaler/"+workers]; ours {
		t.Error("the chart scales them too")
	}
	var counted struct {
		Events struct {
			Workloads struct {
				Work struct {
					Autoscaling struct {
						MaxReplicas int `json:"maxReplicas"`
					} `json:"autoscaling"`
				} `json:"work"`
			} `json:"workloads"`
		} `json:"events"`
	}
	if err := yaml.Unmarshal([]byte(values), &counted); err != nil {
		t.Fatal(err)
	}
	if most := counted.Events.Workloads.Work.Autoscaling.MaxReplicas; most != keda.Spec.MaxReplicaCount {
		t.Errorf("KEDA's maximum is %d, and the budget counts %d", keda.Spec.MaxReplicaCount, most)
	}
	// Not NaN, which a replica reports that could not count.
	const query = `max(events_pending{namespace="ns", app_kubernetes_io_instance="rowlock"} >= 0)`
	if got := keda.Spec.Triggers[0].Metadata["query"]; got != query {
		t.Errorf("KEDA asks %s", got)
	}
	wantMetric(t, "events_pending")
}

const secretsExample = "external-secrets.yaml"

// externalSecret is the part of the operator's kind that the example uses.
type externalSecret struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		RefreshInterval string `json:"refreshInterval"`
		SecretStoreRef  struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"secretStoreRef"`
		DataFrom []struct {
			Extract struct {
				Key string `json:"key"`
			} `json:"extract"`
		} `json:"dataFrom"`
	} `json:"spec"`
}

// Each secret that a pod cannot start without comes from its entry in the store, and no other secret does. A new
// password comes in the minute that the example speaks of.
func TestSecretsComeFromAStore(t *testing.T) {
	t.Parallel()
	manifests, err := template(t, helm4, umbrella, read(t, umbrella+"/examples/"+secretsExample))
	if err != nil {
		t.Fatal(err)
	}
	all, brought := divide[externalSecret](t, manifests, "ExternalSecret")
	var got, entries, want []string
	for _, one := range brought {
		got = append(got, one.Metadata.Name)
		entries = append(entries, one.Spec.DataFrom[0].Extract.Key)
		if every := one.Spec.RefreshInterval; every != "1m" {
			t.Errorf("%s is read every %s, want 1m", one.Metadata.Name, every)
		}
	}
	for _, o := range all {
		for _, c := range podOf(o).Containers {
			for _, v := range c.Env {
				if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
					want = append(want, v.ValueFrom.SecretKeyRef.Name)
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("the store brings %v, the pods need %v", got, want)
	}
	slices.Sort(entries)
	if n := len(slices.Compact(entries)); n != len(brought) {
		t.Errorf("%d secrets come from %d entries", len(brought), n)
	}
}

// wantMetric demands that events' reference page, which a test compares with a replica, has the metric.
func wantMetric(t *testing.T, name string) {
	t.Helper()
	if !strings.Contains(read(t, "../../services/events/REFERENCE.md"), "\n| `"+name+"` |") {
		t.Errorf("events have no metric %s", name)
	}
}

// The values of OPERATING.md scale the workers by the same metric, beside their CPU.
func TestWorkersAreScaledByAMetric(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(read(t, umbrella+"/OPERATING.md"), "\n```yaml\nevents:")
	values, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no values of events")
	}
	hpa := get[autoscaling.HorizontalPodAutoscaler](t, renderAlike(t, umbrella, "events:"+values),
		"HorizontalPodAutoscaler/rowlock-events-work").Spec
	if len(hpa.Metrics) != 2 || hpa.Metrics[0].ContainerResource == nil || hpa.Metrics[1].External == nil {
		t.Fatalf("the metrics are %s", raw(t, hpa.Metrics))
	}
	wantMetric(t, hpa.Metrics[1].External.Metric.Name)
}
