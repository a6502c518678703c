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
	scenarioTraceOff    = "trace-off"
	scenarioTraceFew    = "trace-1"
	scenarioTraceAll    = "trace-100"

	maxHotReplicas = 3

	scenarioBarePayment = "pgbench-payment"
	scenarioNewKeys     = "new-keys"
	scenarioReplays     = "replays"

	scenarioBareEvent    = "pgbench-event"
	scenarioAddEvent     = "add"
	scenarioClaimFew     = "claim-few"
	scenarioClaimMany    = "claim-many"
	scenarioLookup       = "lookup"
	scenarioCount        = "count"
	scenarioWorkOne      = "work-1"
	scenarioWork         = "work-4"
	scenarioMariaAdd     = "mariadb-add"
	scenarioMariaClaim   = "mariadb-claim"
	scenarioMariaLookup  = "mariadb-lookup"
	scenarioMariaOne     = "mariadb-work-1"
	scenarioMariaWork    = "mariadb-work-4"
	scenarioAdd          = "add"
	scenarioPage         = "page"
	scenarioFirstPage    = "first-page"
	scenarioLastPage     = "last-page"
	scenarioIncrement    = "increment"
	scenarioDelete       = "delete"
	scenarioAddOne       = "add-one"
	scenarioIncrementOne = "increment-one"
	scenarioGetOne       = "get-one"
	scenarioDeleteOne    = "delete-one"
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
	serviceEvents   = "events"
	serviceIidy     = "iidy"
	servicePyggpot  = "pyggpot"
)

// kind is how a scenario loads the system.
type kind uint8

const (
	kindBaseline kind = iota
	kindSaturating
	kindOpen
	kindOther // whatever the workload makes of it
)

// scenario is one way to load the system.
type scenario struct {
	name     string
	title    string
	kind     kind
	hot      bool // one item instead of all
	replicas int  // 0 for the baselines
	baseline string

	mysql     bool // of events: on MariaDB
	workers   int  // of events: how many, in how many processes
	processes int
}

// scenarios lists what is to be run, in the order of one round: each baseline right before what is held against it.
func (o Options) scenarios() []scenario {
	var all []scenario

	switch o.service {
	case servicePayments:
		all = o.paymentsScenarios()
	case serviceEvents:
		all = o.eventsScenarios()
	case serviceIidy:
		all = o.iidyScenarios()
	case servicePyggpot:
		all = o.pyggpotScenarios()
	default:
		all = o.countsScenarios()
		if o.Trace {
			all = o.traceScenarios()
		}
	}

	if len(o.Only) == 0 {
		return all
	}

	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(o.Only, s.name) })
}

// traceScenarios differ in nothing but what the replicas were told about tracing.
func (o Options) traceScenarios() []scenario {
	all := []scenario{
		{name: scenarioTraceOff, title: "uniform, tracing off"},
		{name: scenarioTraceFew, title: "uniform, 1 % of the requests traced", baseline: scenarioTraceOff},
		{name: scenarioTraceAll, title: "uniform, every request traced", baseline: scenarioTraceOff},
	}

	for i := range all {
		all[i].kind, all[i].replicas = kindSaturating, o.Replicas
	}

	return all
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

func (o Options) eventsScenarios() []scenario {
	const many = "1,000,000 processed"

	return []scenario{
		{name: scenarioBareEvent, title: "bare pgbench, one transaction per id", kind: kindBaseline},
		{
			name: scenarioAddEvent, title: "POST /events, " + replicas(o.Replicas), kind: kindSaturating, replicas: o.Replicas,
			baseline: scenarioBareEvent,
		},
		{name: scenarioClaimFew, title: "claim of 100, 10,000 processed", kind: kindOther},
		{name: scenarioClaimMany, title: "claim of 100, " + many, kind: kindOther},
		{name: scenarioLookup, title: "GET /events/{id}, " + many, kind: kindOther},
		{name: scenarioCount, title: "GET /events, " + many, kind: kindOther},
		{name: scenarioWorkOne, title: "work, 1 worker", kind: kindOther, workers: 1, processes: 1},
		{name: scenarioWork, title: "work, 4 workers in 2 processes", kind: kindOther, workers: 4, processes: 2},
		{name: scenarioMariaAdd, title: "MariaDB: POST /events, " + replicas(o.Replicas), kind: kindOther, mysql: true},
		{name: scenarioMariaClaim, title: "MariaDB: claim of 100, " + many, kind: kindOther, mysql: true},
		{name: scenarioMariaLookup, title: "MariaDB: GET /events/{id}, " + many, kind: kindOther, mysql: true},
		{name: scenarioMariaOne, title: "MariaDB: work, 1 worker", kind: kindOther, mysql: true, workers: 1, processes: 1},
		{name: scenarioMariaWork, title: "MariaDB: work, 4 workers in 2 processes", kind: kindOther, mysql: true, workers: 4, processes: 2},
	}
}

// iidyScenarios are in the order in which a list lives.
func (o Options) iidyScenarios() []scenario {
	all := make([]scenario, 0, 1+len(iidyBars()))
	all = append(all, scenario{name: scenarioBareUniform, title: "bare pgbench, single-row updates", kind: kindBaseline})

	for _, s := range []struct{ name, title string }{
		{scenarioAdd, "items added, 1,000 a request"},
		{scenarioPage, "items paged, 1,000 a request"},
		{scenarioFirstPage, "items paged, the first page alone"},
		{scenarioLastPage, "items paged, the last page alone"},
		{scenarioIncrement, "items incremented, 1,000 a request"},
		{scenarioDelete, "items deleted, 1,000 a request"},
		{scenarioAddOne, "single adds"},
		{scenarioGetOne, "single gets"},
		{scenarioIncrementOne, "single increments"},
		{scenarioDeleteOne, "single deletes"},
	} {
		all = append(all, scenario{name: s.name, title: s.title, kind: kindSaturating, replicas: o.Replicas, baseline: scenarioBareUniform})
	}

	return all
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
