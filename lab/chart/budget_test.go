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
// autoscalers' ranges, and leave three for monitoring and operators.
func TestDefaultsFitTheDatabase(t *testing.T) {
	t.Parallel()
	if got := connections(t, render(t, umbrella, "")); got > 100-reserved-3 {
		t.Errorf("by default the replicas may open %d connections, want at most %d", got, 100-reserved-3)
	}
}

// The chart counts as this test does, and refuses one connection less. TestNotes renders with exactly as many.
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

// Where another autoscaler decides, by replicas: null of a service or a workload, the Deployment has no number of
// replicas that an upgrade would set it back to, and the budget counts autoscaling.maxReplicas all the same. There may
// be one replica, as with minReplicas: 1, which has a successor before it ends.
func TestAnotherAutoscaler(t *testing.T) {
	t.Parallel()
	const values = `
global: {database: {maxConnections: %d}}
counts: {%[2]s, autoscaling: {enabled: %[3]t, minReplicas: 1, maxReplicas: 9}}
events: {workloads: {work: {%[2]s, autoscaling: {enabled: %[3]t, minReplicas: 1, maxReplicas: 7}}}}`
	of := func(limit int, replicas string, enabled bool) string {
		return fmt.Sprintf(values, limit, replicas, enabled)
	}
	need := connections(t, render(t, umbrella, of(1000, "replicas: 2", true)))
	all := renderAlike(t, umbrella, of(need+reserved, "replicas: null", false))
	for _, w := range workloads() {
		spec, _ := at(all["Deployment/"+w].plain, "spec").(dict)
		if replicas, has := spec["replicas"]; has {
			t.Errorf("%s has replicas: %v", w, replicas)
		}
		other := w == "rowlock-counts" || w == "rowlock-events-work"
		if _, found := all["HorizontalPodAutoscaler/"+w]; found == other {
			t.Errorf("%s has an autoscaler of the chart's: %t, want %t", w, found, !other)
		}
	}
	wantRefused(t, umbrella, of(need+reserved-1, "replicas: null", false),
		fmt.Sprintf("the replicas may open %d connections", need))
}
