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
)

// connections counts, from the rendered objects alone, what all replicas may open at most: the autoscaler's maximum (or the
// replicas) and the surge, times what a replica of the service opens. payments opens a second pool, for the processor's ledger, that
// leaves out two (services/payments/README.md).
func connections(t *testing.T, all objects) (sum int) {
	t.Helper()
	for name, o := range all {
		d, ok := o.typed.(*apps.Deployment)
		if !ok {
			continue
		}
		var replicas int
		if hpa, on := all["HorizontalPodAutoscaler/"+d.Name].typed.(*autoscaling.HorizontalPodAutoscaler); on {
			replicas = int(hpa.Spec.MaxReplicas)
		} else {
			replicas = int(*d.Spec.Replicas)
		}
		surge, err := intstr.GetScaledValueFromIntOrPercent(d.Spec.Strategy.RollingUpdate.MaxSurge, replicas, true)
		if err != nil {
			t.Fatal(err)
		}
		each, err := strconv.Atoi(environment(t, all, strings.TrimPrefix(name, "Deployment/"))["DB_MAX_OPEN_CONNS"])
		if err != nil {
			t.Fatal(err)
		}
		if d.Spec.Template.Labels["app.kubernetes.io/name"] == "payments" {
			each += each - 2
		}
		sum += (replicas + surge) * each
	}
	return sum
}

// By default five services at full scale fit max_connections=400, rollouts included, and leave some for replicas that are ending.
func TestDefaultsFitTheDatabase(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		if got := connections(t, render(t, helm, umbrella, "{}")); got != 350 {
			t.Errorf("by default the replicas may open %d connections, want 350 of 400", got)
		}
	})
}

// The chart counts as this test does: it renders at exactly that limit, and not below it.
func TestTheBudgetIsExact(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for _, values := range []string{
			`{}`,
			`counts: {autoscaling: {maxReplicas: 12}, maxSurge: 25%}`,
			`counts: {autoscaling: {maxReplicas: 9}, maxSurge: 34%}`,
			`payments: {autoscaling: {enabled: false}, replicas: 3, database: {maxOpenConns: 5}}`,
			`events: {workloads: {work: {autoscaling: {maxReplicas: 20}, database: {maxOpenConns: 7}}}}`,
			`events: {workloads: {work: {enabled: false}}}`,
			`{iidy: {enabled: false}, pyggpot: {enabled: false}}`,
		} {
			limit := "\nglobal: {database: {maxConnections: %d}}"
			if strings.HasPrefix(values, "{") && values != "{}" {
				values = "iidy: {enabled: false}\npyggpot: {enabled: false}"
			} else if values == "{}" {
				values = ""
			}
			need := connections(t, render(t, helm, umbrella, values+fmt.Sprintf(limit, math.MaxInt32)))
			if _, err := template(t, helm, umbrella, values+fmt.Sprintf(limit, need)); err != nil {
				t.Errorf("%s needs %d connections, and is refused with them: %v", values, need, err)
			}
			_, err := template(t, helm, umbrella, values+fmt.Sprintf(limit, need-1))
			want := fmt.Sprintf("the replicas may open %d connections, and global.database.maxConnections says that there are %d", need, need-1)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with one connection too few: %v, want %s", values, err, want)
			}
		}
	})
}
