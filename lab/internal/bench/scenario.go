package bench

import (
	"fmt"
	"slices"
)

// The scenarios' names, as in the JSON report and in --only.
const (
	scenarioBareUniform = "pgbench-uniform"
	scenarioBareRow     = "pgbench-row"
	scenarioUniform     = "uniform"
	scenarioHot         = "hot" // and hot-1, hot-2, hot-3
	scenarioOpen        = "open"

	maxHotReplicas = 3

	scenarioBarePayment = "pgbench-payment"
	scenarioNewKeys     = "new-keys"
	scenarioReplays     = "replays"

	scenarioBarePots     = "pgbench-pots"
	scenarioPots         = "pots"
	scenarioOnePot       = "one-pot"
	scenarioFewAtRandom  = "random-10"
	scenarioManyAtRandom = "random-1e9"
)

// The services that there is a bench of.
const (
	serviceCounts   = "counts"
	servicePayments = "payments"
	servicePyggpot  = "pyggpot"
)

// kind is how a scenario loads the system.
type kind uint8

const (
	kindBaseline kind = iota
	kindSaturating
	kindOpen
)

// scenario is one way to load the system.
type scenario struct {
	name     string
	title    string
	kind     kind
	hot      bool // one item instead of all
	replicas int  // 0 for the baselines
	baseline string
}

// scenarios lists what is to be run, in the order of one round: each baseline right before what is held against it.
func (o Options) scenarios() []scenario {
	all := o.countsScenarios()

	switch o.service {
	case servicePayments:
		all = o.paymentsScenarios()
	case servicePyggpot:
		all = o.pyggpotScenarios()
	}

	if len(o.Only) == 0 {
		return all
	}

	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(o.Only, s.name) })
}

func (o Options) paymentsScenarios() []scenario {
	return []scenario{
		{name: scenarioBarePayment, title: "bare pgbench, the statements of a payment", kind: kindBaseline},
		{
			name: scenarioNewKeys, title: "new keys, " + replicas(o.Replicas), kind: kindSaturating, replicas: o.Replicas,
			baseline: scenarioBarePayment,
		},
		{
			name: scenarioReplays, title: "replays, " + replicas(o.Replicas), kind: kindSaturating, replicas: o.Replicas,
			baseline: scenarioBarePayment,
		},
	}
}

func (o Options) pyggpotScenarios() []scenario {
	return []scenario{
		{name: scenarioBarePots, title: "bare pgbench, the statements of a change", kind: kindBaseline},
		{
			name: scenarioPots, title: fmt.Sprintf("%s pots, %s", thousands(float64(o.Items)), replicas(o.Replicas)), kind: kindSaturating,
			replicas: o.Replicas, baseline: scenarioBarePots,
		},
		{name: scenarioOnePot, title: "one pot, " + replicas(o.Replicas), kind: kindSaturating, hot: true, replicas: o.Replicas},
		{name: scenarioFewAtRandom, title: "10 coins at random, one by one", kind: kindSaturating, replicas: 1},
		{name: scenarioManyAtRandom, title: "10^9 coins at random, one by one", kind: kindSaturating, replicas: 1},
	}
}

func (o Options) countsScenarios() []scenario {
	all := []scenario{
		{name: scenarioBareUniform, title: "bare pgbench, uniform", kind: kindBaseline},
		{
			name: scenarioUniform, title: "uniform, " + replicas(o.Replicas), kind: kindSaturating, replicas: o.Replicas,
			baseline: scenarioBareUniform,
		},
		{name: scenarioBareRow, title: "bare pgbench, one row", kind: kindBaseline, hot: true},
	}

	for n := 1; n <= maxHotReplicas; n++ {
		all = append(all, scenario{
			name: hotName(n), title: "one hot item, " + replicas(n), kind: kindSaturating, hot: true, replicas: n, baseline: scenarioBareRow,
		})
	}

	if o.Replicas > maxHotReplicas {
		all = append(all, scenario{
			name: hotName(o.Replicas), title: "one hot item, " + replicas(o.Replicas), kind: kindSaturating, hot: true,
			replicas: o.Replicas, baseline: scenarioBareRow,
		})
	}

	all = append(all, scenario{
		name: scenarioOpen, title: fmt.Sprintf("open loop, %s/s, uniform, %s", thousands(o.Rate), replicas(o.Replicas)), kind: kindOpen,
		replicas: o.Replicas,
	})

	return all
}

func names(o Options) []string {
	o.Only = nil

	all := o.scenarios()
	list := make([]string, len(all))

	for i, s := range all {
		list[i] = s.name
	}

	return list
}

func hotName(n int) string { return fmt.Sprintf("%s-%d", scenarioHot, n) }

func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}

	return fmt.Sprintf("%d replicas", n)
}
