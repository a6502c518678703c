package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// connections counts, from the rendered objects alone, what all replicas may open at most while new versions roll out:
// each that there may be, times what a replica of the service opens.
func connections(t *testing.T, all objects) (sum int) {
	t.Helper()
	for name, o := range all {
		d, ok := o.typed.(*apps.Deployment)
		if !ok {
			continue
		}

		each, err := strconv.Atoi(environment(t, all, strings.TrimPrefix(name, "Deployment/"))["DB_MAX_OPEN_CONNS"])
		if err != nil {
			t.Fatal(err)
		}
		if s, err := targets.Named(d.Spec.Template.Labels["app.kubernetes.io/name"]); err == nil {
			each += s.SecondPool
		}
		sum += mostAlive(rollout(t, all, d)) * each
	}
	return sum
}

// pace holds how a Deployment replaces its replicas; times in seconds.
type pace struct{ replicas, surge, unavailable, ready, grace int }

func rollout(t *testing.T, all objects, d *apps.Deployment) pace {
	t.Helper()
	p := pace{ready: int(d.Spec.MinReadySeconds), grace: int(*d.Spec.Template.Spec.TerminationGracePeriodSeconds)}
	if hpa, on := all["HorizontalPodAutoscaler/"+d.Name].typed.(*autoscaling.HorizontalPodAutoscaler); on {
		p.replicas = int(hpa.Spec.MaxReplicas)
	} else {
		p.replicas = int(*d.Spec.Replicas)
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(d.Spec.Strategy.RollingUpdate.MaxSurge, p.replicas, true)
	if err != nil {
		t.Fatal(err)
	}
	p.surge, p.unavailable = surge, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()
	return p
}

// mostAlive simulates the slowest rollout of a Deployment, second by second: new replicas are ready as soon as they are
// made, old ones end when their grace period is over and not before. It returns how many there are at once at most. The
// controller keeps replicas + surge that are not ending, and asks as many old ones to end as there are available ones
// above replicas - unavailable.
func mostAlive(p pace) (most int) {
	old, ending, made := p.replicas, []int{}, []int{}
	for now := 0; old > 0; now++ {
		available := old
		for _, at := range made {
			if now >= at+p.ready {
				available++
			}
		}

		for ; available > p.replicas-p.unavailable && old > 0; available-- {
			old--
			ending = append(ending, now)
		}

		for old+len(made) < p.replicas+p.surge && len(made) < p.replicas {
			made = append(made, now)
		}

		alive := old + len(made)
		for _, at := range ending {
			if now < at+p.grace {
				alive++
			}
		}
		most = max(most, alive)
	}
	return most
}

// reserved is how many of max_connections PostgreSQL keeps for superusers.
const reserved = 3

// By default all services fit PostgreSQL's max_connections=100 while all of them roll out at the top of their
// autoscalers' ranges, and leave three for monitoring and operators. The limits that the notes print for the runtime
// roles are what the chart counts, and together fit the server of k8s/postgres.yaml.
func TestDefaultsFitTheDatabase(t *testing.T) {
	t.Parallel()
	if got := connections(t, render(t, umbrella, "")); got > 100-reserved-3 {
		t.Errorf("by default the replicas may open %d connections, want at most %d", got, 100-reserved-3)
	}

	printed, sum := notes(t, ""), 0
	for _, service := range targets.Names() {
		only := "--set=" + strings.Join(targets.Names(), ".enabled=false,") + ".enabled=false," + service + ".enabled=true"
		need := connections(t, render(t, umbrella, "", only))
		if note := fmt.Sprintf(" %s %d", service, need); !strings.Contains(printed, note) {
			t.Errorf("the notes lack %q:\n%s", note, printed)
		}
		sum += need
	}
	if sum > 100-reserved {
		t.Errorf("all roles together may open %d connections, want at most %d", sum, 100-reserved)
	}
}

// The chart counts as this test does, and refuses one connection less. TestGoldenNotes renders with exactly as many.
func TestTheBudgetIsExact(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		`
counts: {autoscaling: {enabled: true, maxReplicas: 12}, maxSurge: 25%}
events: {autoscaling: {enabled: true}, workloads: {work: {autoscaling: {maxReplicas: 20}, database: {maxOpenConns: 9}}}}
iidy: {minReadySeconds: 0}
payments: {autoscaling: {enabled: false}, replicas: 3, database: {maxOpenConns: 5}}
pyggpot: {autoscaling: {enabled: false}, minReadySeconds: 32, replicas: 5, maxSurge: 2}`,
		`
counts: {autoscaling: {enabled: true, maxReplicas: 9}, maxSurge: 34%}
events: {minReadySeconds: 12, workloads: {work: {enabled: false}}}
iidy: {minReadySeconds: 5, autoscaling: {enabled: true, maxReplicas: 11}}
payments: {maxSurge: 10, shutdown: {timeoutSeconds: 60}}
pyggpot: {autoscaling: {enabled: false}, minReadySeconds: 33, replicas: 5, maxSurge: 2}`,
		`
counts: {autoscaling: {enabled: false}, replicas: 0}
events: {autoscaling: {minReplicas: 1, maxReplicas: 1}}
iidy: {enabled: false}
pyggpot: {autoscaling: {enabled: false}, replicas: 1}`,
	} {
		const limit = "\nglobal: {database: {maxConnections: %d}}"
		need := connections(t, render(t, umbrella, values+fmt.Sprintf(limit, math.MaxInt32)))
		short := need + reserved - 1
		wantRefused(t, umbrella, values+fmt.Sprintf(limit, short), fmt.Sprintf(
			"the replicas may open %d connections, and global.database.maxConnections=%d leaves %d", need, short, need-1))
	}
}

// A service alone has the same budget of connections.
func TestTheBudgetOfOneServiceAlone(t *testing.T) {
	t.Parallel()
	// Three replicas and one that is ending x (3 + 4)
	values := "database: {secondPoolConns: 4, maxConnections: %d}"
	render(t, alone, fmt.Sprintf(values, 31))
	wantRefused(t, alone, fmt.Sprintf(values, 30),
		"the replicas may open 28 connections, and database.maxConnections=30 leaves 27")
}

// A replica that may be the only one has a successor before it ends, although others are replaced one for one.
func TestALoneReplicaIsNeverMissing(t *testing.T) {
	t.Parallel()
	all := render(t, umbrella, `
counts: {autoscaling: {minReplicas: 1}}
events: {workloads: {work: {autoscaling: {enabled: false}, replicas: 1}}}
iidy: {autoscaling: {enabled: false}, replicas: 2}`)
	for w, want := range map[string]string{
		"rowlock-counts": "1 0", "rowlock-events": "0 1", "rowlock-events-work": "1 0", "rowlock-iidy": "0 1",
	} {
		p := rollout(t, all, get[apps.Deployment](t, all, "Deployment/"+w))
		if got := fmt.Sprint(p.surge, p.unavailable); got != want {
			t.Errorf("the surge of %s, and how many may be missing, are %s, want %s", w, got, want)
		}
	}
}

// Where another autoscaler decides, by replicas: null, the Deployment has no number of replicas that an upgrade would
// set it back to, and the budget counts autoscaling.maxReplicas all the same. (testdata/example-keda.yaml is such a
// Deployment.)
func TestAnotherAutoscalersBudget(t *testing.T) {
	t.Parallel()
	const values = "counts: {replicas: %s, autoscaling: {enabled: %t, minReplicas: 1, maxReplicas: 9}}\n" +
		"global: {database: {maxConnections: %d}}"
	need := connections(t, render(t, umbrella, fmt.Sprintf(values, "2", true, 1000)))
	all := render(t, umbrella, fmt.Sprintf(values, "null", false, need+reserved))
	if replicas := get[apps.Deployment](t, all, "Deployment/rowlock-counts").Spec.Replicas; replicas != nil {
		t.Errorf("counts has replicas: %d", *replicas)
	}
	wantRefused(t, umbrella, fmt.Sprintf(values, "null", false, need+reserved-1),
		fmt.Sprintf("the replicas may open %d connections", need))
}
