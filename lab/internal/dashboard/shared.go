package dashboard

import (
	"fmt"
	"strings"
)

// ofServices holds the dashboards of the services, which their files register.
//
//nolint:gochecknoglobals // written before main begins
var ofServices []func() *Dashboard

// register adds the dashboard of a service. Its result has no meaning: it lets a file register at package level.
func register(d func() *Dashboard) bool { //nolint:unparam // a variable needs a value
	ofServices = append(ofServices, d)
	return true
}

// All returns the dashboards, the overview first.
func All() []*Dashboard {
	all := make([]*Dashboard, 0, 1+len(ofServices))
	for _, d := range append([]func() *Dashboard{overview}, ofServices...) {
		all = append(all, d())
	}
	return all
}

const (
	requestSeconds = "http_server_request_duration_seconds"
	requestCount   = requestSeconds + "_count"
)

// service names the label that the chart's ServiceMonitors copy from the Service.
const service = "app_kubernetes_io_name"

// byService is the legend of series that are services.
const byService = "{{" + service + "}}"

// ofRelease holds the matchers of the two variables that every dashboard has.
const ofRelease = `namespace=~"$namespace",app_kubernetes_io_instance=~"$release"`

// releases returns these variables, and those of the dashboard.
func releases(more ...Variable) []Variable {
	return append([]Variable{
		{Name: "namespace", Label: "Namespace", Query: "label_values(rowlock_build_info, namespace)"},
		{
			Name: "release", Label: "Release",
			Query: `label_values(rowlock_build_info{namespace=~"$namespace"}, app_kubernetes_io_instance)`,
		},
	}, more...)
}

// ofService returns the dashboard of one service, without its rows.
func ofService(name, description string) *Dashboard {
	return &Dashboard{
		Name: name, Title: "Rowlock / " + name, Description: description,
		Selector: ofRelease + `,app_kubernetes_io_name="` + name + `",pod=~"$pod"`,
		Variables: releases(Variable{
			Name: "pod", Label: "Pod",
			Query: `label_values(rowlock_build_info{` + ofRelease + `,app_kubernetes_io_name="` + name + `"}, pod)`,
		}),
	}
}

// rate returns a counter's increase per second, summed by labels.
func rate(counter string, by ...string) string {
	return fmt.Sprintf("sum%s (rate(%s[$__rate_interval]))", clause(by), matched(counter))
}

// quantile returns a quantile of a histogram, by labels.
func quantile(q float64, histogram string, by ...string) string {
	name, matchers, _ := strings.Cut(histogram, "{")
	if matchers != "" {
		matchers = "{" + matchers
	}
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, rate(name+"_bucket"+matchers, append([]string{"le"}, by...)...))
}

// mean returns the average of the values that a histogram has observed, by labels.
func mean(histogram string, by ...string) string {
	return rate(histogram+"_sum", by...) + " / " + rate(histogram+"_count", by...)
}

// matched puts $sel before the matchers of a metric.
func matched(metric string) string {
	name, matchers, more := strings.Cut(metric, "{")
	if !more {
		return name + "{$sel}"
	}
	return name + "{$sel," + matchers
}

func clause(by []string) string {
	if len(by) == 0 {
		return ""
	}
	return " by (" + strings.Join(by, ", ") + ")"
}

// failedShare returns the part of the requests that were answered 5xx, 0 where none was.
func failedShare(by ...string) string {
	all := rate(requestCount, by...)
	return fmt.Sprintf("(%s or 0 * %s) / %s", rate(`http_server_request_duration_seconds_count{status=~"5.."}`, by...),
		all, all)
}

// poolShare returns the used part of the fullest connection pool, by labels.
func poolShare(by ...string) string {
	return fmt.Sprintf("max%s (%s / %s)", clause(by), matched("rowlock_db_connections_in_use"),
		matched("rowlock_db_connections_max"))
}

// atAGlance titles the first row.
const atAGlance = "At a glance"

// figures returns the panels of the first row that all dashboards have.
func figures() []Panel {
	return []Panel{
		stat("Replicas", UnitShort,
			"Processes that Prometheus reaches, workers included. down: listed by Kubernetes, but without an answer.",
			query("sum(up{$sel})", "up"), query("sum(1 - up{$sel})", "down")),
		stat("Requests", UnitRate,
			"Requests to the API per second, over all replicas.",
			query(rate(requestCount), "requests")),
		stat("Failed", UnitShare,
			"Part of the requests that were answered 5xx. 503 was not applied and may be repeated; 500 OUTCOME_UNKNOWN may "+
				"have been applied. The default objective: below 0.1 %.",
			query(failedShare(), "5xx")).limits(0.001, 0.01),
		stat("99th percentile", UnitSeconds,
			"Time in which 99 of 100 requests were answered, over all routes. Objective: below 0.2 s.",
			query(quantile(0.99, requestSeconds), "p99")).limits(0.2, 1),
	}
}

// serviceGlance returns the first row of one service: what all services have, and its own panels.
func serviceGlance(own ...Panel) Row {
	return Row{Title: atAGlance, Panels: append(figures(), own...)}
}

// apiRow shows the traffic of one service.
func apiRow() Row {
	return Row{Title: "API", Panels: []Panel{
		series("Requests by route", UnitRate,
			"Requests by route. One route at zero while others continue: its caller is down.",
			query(rate(requestCount, "method", "route"), "{{method}} {{route}}")).stacked(),
		series("Answers by status", UnitRate,
			"503: NOT_APPLIED, DATABASE_UNAVAILABLE or OVERLOADED, callers repeat it. 500: OUTCOME_UNKNOWN, or a bug. Many "+
				"4xx: a caller's mistake.",
			query(rate(requestCount, "status"), "{{status}}")).stacked(),
		series("Refused callers", UnitRate,
			"With AUTH=token. policy: no rule allows it, 403. keys: the issuer's keys are not known, 503. All others: no token "+
				"that is good, 401.",
			query(rate("rowlock_auth_refused_total", "reason"), "{{reason}}")).stacked(),
	}}
}

// latencyRow shows how long the requests of one service take.
func latencyRow() Row {
	return Row{Title: "Latency", Panels: []Panel{
		heatmap("Latency", UnitSeconds,
			"Requests per second by how long they took: the darker, the more. A second band above the usual one is requests "+
				"that waited, for a lock, for a connection or for a group; one band that rises is a slow database. Reads the "+
				"classic buckets.",
			requestSeconds).exemplars(),
		series("Latency by route, 99th percentile", UnitSeconds,
			"From the request's header to the end of its handler. What is left after the waits for locks and for "+
				"connections, below, is the database's own time.",
			query(quantile(0.99, requestSeconds, "method", "route"),
				"{{method}} {{route}}")).limits(0.2, 1).exemplars(),
	}}
}

// lockRow shows what waiting for the service's lock costs.
func lockRow(what string) Row {
	return Row{Title: "Locks: " + what, Panels: []Panel{
		series("Wait for a lock, 99th percentile", UnitSeconds,
			"Time until the lock was taken or the wait ended. process: held by another request of this replica. database: "+
				"held by another transaction.",
			query(quantile(0.99, "rowlock_lock_wait_seconds", "lock", "where"), "{{lock}}, {{where}}")).limits(1, 5),
		series("Callers waiting for a lock", UnitShort,
			"On average at any moment (seconds waited per second). Steady growth: one hot key. A jump: a transaction keeps "+
				"its lock (the runbook has the query that finds it).",
			query(rate("rowlock_lock_wait_seconds_sum", "lock", "where"), "{{lock}}, {{where}}")).stacked(),
		series("Lock conflicts", UnitOps,
			"lock_timeout: the wait for a row ended. queue_timeout: the wait behind a request of this replica ended. crowded: "+
				"refused at once, as the lock is known to be held and as many as may wait do. held: leased to another replica, "+
				"tried again. lost: refused, as its own lease or claim had expired. taken_over: the "+
				"previous holder's lease had expired.",
			query(rate("rowlock_lock_conflicts_total", "lock", "reason"), "{{lock}}, {{reason}}")),
	}}
}

// groupRow shows group commit, platform/groupcommit.
func groupRow() Row {
	return Row{Title: "Group commit", Panels: []Panel{
		series("Requests per statement", UnitShort,
			"Mean size of a group: 1 when idle, larger under load. Near 500 (pots: 32) groups are full, and requests queue.",
			query(mean("rowlock_coalesce_batch_size", "coalescer"), "{{coalescer}}")),
		series("Wait for a group, 99th percentile", UnitSeconds,
			"From a request's arrival until its statement was sent: about the duration of the previous statement.",
			query(quantile(0.99, "rowlock_coalesce_wait_seconds", "coalescer"), "{{coalescer}}")).limits(0.2, 1),
		series("Queue", UnitShort,
			"Requests in the queue of the fullest replica; at MAX_IN_FLIGHT (1024) further ones are refused. locked: keys "+
				"locked by another transaction, which wait in a lane of their own.",
			query("max by (coalescer) (rowlock_coalesce_queue_length{$sel})", "{{coalescer}}"),
			query("sum by (coalescer) (rowlock_coalesce_slow_keys{$sel})", "{{coalescer}}, locked")).limits(512, 1024),
		series("Requests refused", UnitOps,
			"Answered 503, which callers repeat. queue full: more requests than the database commits. locked out: the row "+
				"stayed locked for DB_LOCK_TIMEOUT.",
			query(rate("rowlock_coalesce_queue_full_total", "coalescer"), "{{coalescer}}, queue full"),
			query(rate("rowlock_coalesce_locked_out_total", "coalescer"), "{{coalescer}}, locked out")).limits(0, 1),
	}}
}

// databaseRow shows connections and transactions, by labels beside the pool.
func databaseRow(legend string, by ...string) Row {
	with := func(label string) ([]string, string) {
		return append(append([]string{}, by...), label), legend + "{{" + label + "}}"
	}
	pool, poolLegend := with("pool")
	state, stateLegend := with("sqlstate")
	operation, operationLegend := with("operation")
	return Row{Title: "Database", Panels: []Panel{
		series("Pool in use", UnitShare,
			"Connections in use, as a part of DB_MAX_OPEN_CONNS, on the fullest replica. At 100 % calls wait, and reads from "+
				"50 % on: see the next panel.",
			query(poolShare(pool...), poolLegend)).limits(0.8, 1),
		series("Calls waiting for a connection", UnitShort,
			"On average at any moment (seconds waited per second), reads that leave connections to changes included. Above 1 "+
				"for a long time: the database is slow, or the pool is too small.",
			query(rate("rowlock_db_wait_seconds_total", pool...), poolLegend)).stacked().limits(1, 0),
		series("Transactions run again", UnitOps,
			"Transactions that the database rolled back and that ran again: 40P01 is a deadlock, 40001 a serialization "+
				"failure, 0A000 a migration during the transaction. The services cause no deadlocks: another client locks in "+
				"another order.",
			query(rate("rowlock_retries_total", state...), stateLegend)),
		series("Outcome unknown", UnitShort,
			"Changes in each interval whose COMMIT got no answer and could not be resolved. Expect a few after a failover of "+
				"the database; without one, something cuts connections.",
			query(fmt.Sprintf("sum%s (increase(%s[$__rate_interval]))", clause(operation),
				matched("rowlock_outcome_unknown_total")), operationLegend)).limits(0, 1),
	}}
}

// processRow shows the processes of one service.
func processRow() Row {
	return Row{Title: "Processes", Panels: []Panel{
		series("Requests in flight", UnitShort,
			"Per replica. At MAX_IN_FLIGHT (1024) further requests are answered 503 OVERLOADED. Large differences between "+
				"replicas: check the balancer.",
			query("sum by (pod) (http_server_requests_in_flight{$sel})", "{{pod}}")).limits(0, 1024),
		series("CPU", UnitShort,
			"Cores in use, per process. The autoscaler scales by it.",
			query("rate(process_cpu_seconds_total{$sel}[$__rate_interval])", "{{pod}}")),
		series("Memory", UnitBytes,
			"Resident memory, per process. Flat under load, and well below the container's limit.",
			query("process_resident_memory_bytes{$sel}", "{{pod}}")),
		series("Restarts and versions", UnitShort,
			"Processes by version, and containers restarted in the last 15 minutes. Two versions for a long time: a rollout "+
				"hangs.",
			query("count by (version) (rowlock_build_info{$sel})", "{{version}}"),
			query("sum(changes(process_start_time_seconds{$sel}[15m]))", "restarts")),
	}}
}
