package dashboard

import (
	"fmt"
	"strings"
)

// All are the dashboards, the overview first.
func All() []*Dashboard {
	return []*Dashboard{overview(), counts(), payments(), iidy(), events(), pyggpot()}
}

// service is the label that the chart's ServiceMonitors copy from the Service.
const service = "app_kubernetes_io_name"

// byService is the legend of series that are services.
const byService = "{{" + service + "}}"

// ofRelease are the matchers of the two variables that every dashboard has.
const ofRelease = `namespace=~"$namespace",app_kubernetes_io_instance=~"$release"`

// releases are these variables, and those of the dashboard.
func releases(more ...Variable) []Variable {
	return append([]Variable{
		{Name: "namespace", Label: "Namespace", Query: "label_values(rowlock_build_info, namespace)"},
		{Name: "release", Label: "Release", Query: `label_values(rowlock_build_info{namespace=~"$namespace"}, app_kubernetes_io_instance)`},
	}, more...)
}

// ofService is the dashboard of one service, without its rows.
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

// rate is a counter's increase per second, summed up by labels.
func rate(counter string, by ...string) string {
	return fmt.Sprintf("sum%s (rate(%s[$__rate_interval]))", clause(by), matched(counter))
}

// quantile is one of a histogram, by labels.
func quantile(q float64, histogram string, by ...string) string {
	name, matchers, _ := strings.Cut(histogram, "{")
	if matchers != "" {
		matchers = "{" + matchers
	}
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, rate(name+"_bucket"+matchers, append([]string{"le"}, by...)...))
}

// mean is the average of what a histogram has observed, by labels.
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

// failedShare is the part of the requests that were answered 5xx. Where none was it is 0 and not nothing.
func failedShare(by ...string) string {
	all := rate("http_server_request_duration_seconds_count", by...)
	return fmt.Sprintf("(%s or 0 * %s) / %s", rate(`http_server_request_duration_seconds_count{status=~"5.."}`, by...), all, all)
}

// poolShare is how full the connection pools are, by labels: the fullest of them.
func poolShare(by ...string) string {
	return fmt.Sprintf("max%s (%s / %s)", clause(by), matched("rowlock_db_connections_in_use"), matched("rowlock_db_connections_max"))
}

// What an operator wants to see first is the same for each service.

func statReplicas() Panel {
	return Panel{
		Title: "Replicas", Kind: KindStat, Unit: UnitShort, Width: 4,
		Description: "Processes that Prometheus reaches, workers included. Down are those that Kubernetes lists and that did not answer.",
		Queries: []Query{
			{Expr: "sum(up{$sel})", Legend: "up"},
			{Expr: "sum(1 - up{$sel})", Legend: "down"},
		},
	}
}

func statRequests() Panel {
	return Panel{
		Title: "Requests", Kind: KindStat, Unit: UnitRate, Width: 4,
		Description: "Requests to the API per second, over all replicas.",
		Queries:     one(rate("http_server_request_duration_seconds_count"), "requests"),
	}
}

func statFailed() Panel {
	return Panel{
		Title: "Failed", Kind: KindStat, Unit: UnitShare, Width: 4, Warn: 0.001, Bad: 0.01,
		Description: "Part of the requests that were answered 5xx. 503 was surely not applied and may be repeated; " +
			"of 500 OUTCOME_UNKNOWN nobody knows. Goal: below 0.1 %.",
		Queries: one(failedShare(), "5xx"),
	}
}

func statLatency() Panel {
	return Panel{
		Title: "99 of 100 within", Kind: KindStat, Unit: UnitSeconds, Width: 4, Warn: 0.2, Bad: 1,
		Description: "Time in which 99 of 100 requests were answered, over all routes. Goal: below 0.2 s.",
		Queries:     one(quantile(0.99, "http_server_request_duration_seconds"), "p99"),
	}
}

// atAGlance is the title of the first row.
const atAGlance = "At a glance"

// serviceGlance is that of one service: what all have, and what it has itself.
func serviceGlance(own ...Panel) Row {
	return Row{Title: atAGlance, Panels: append([]Panel{statReplicas(), statRequests(), statFailed(), statLatency()}, own...)}
}

// apiRow is the traffic of one service.
func apiRow() Row {
	return Row{Title: "API", Panels: []Panel{
		{
			Title: "Requests by route", Kind: KindTimeseries, Unit: UnitRate, Width: 8, Stack: true,
			Description: "What callers ask for. A route that falls to nothing while others go on is a caller that is broken or gone.",
			Queries:     one(rate("http_server_request_duration_seconds_count", "method", "route"), "{{method}} {{route}}"),
		},
		{
			Title: "Answers by status", Kind: KindTimeseries, Unit: UnitRate, Width: 8, Stack: true,
			Description: "503 is NOT_APPLIED, DATABASE_UNAVAILABLE or OVERLOADED: callers repeat it. 500 is OUTCOME_UNKNOWN or a bug. " +
				"Many 4xx are a caller's mistake.",
			Queries: one(rate("http_server_request_duration_seconds_count", "status"), "{{status}}"),
		},
		{
			Title: "Latency by route, 99 of 100", Kind: KindTimeseries, Unit: UnitSeconds, Width: 8, Warn: 0.2, Bad: 1,
			Description: "From the request's header to the end of its handler. Compare with the waits for locks and for connections below: " +
				"what is left is the database's own time.",
			Queries: one(quantile(0.99, "http_server_request_duration_seconds", "method", "route"), "{{method}} {{route}}"),
		},
	}}
}

// lockRow is what the service's lock costs.
func lockRow(what string) Row {
	return Row{Title: "Locks: " + what, Panels: []Panel{
		{
			Title: "Wait for a lock, 99 of 100", Kind: KindTimeseries, Unit: UnitSeconds, Width: 8, Warn: 1, Bad: 5,
			Description: "How long it took to get the lock or to give up. process: behind another request of the same replica. " +
				"database: held by another replica or by a stranger.",
			Queries: one(quantile(0.99, "rowlock_lock_wait_seconds", "lock", "where"), "{{lock}}, {{where}}"),
		},
		{
			Title: "Callers that wait for a lock", Kind: KindTimeseries, Unit: UnitShort, Width: 8, Stack: true,
			Description: "On average, at any moment: seconds waited per second. Steady growth is one hot key; a jump is somebody who holds a lock " +
				"and does not let go (the runbook has the query that finds him).",
			Queries: one(rate("rowlock_lock_wait_seconds_sum", "lock", "where"), "{{lock}}, {{where}}"),
		},
		{
			Title: "Lock conflicts", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
			Description: "lock_timeout: gave up on a row. queue_timeout: gave up behind a request of the same replica. held: leased to another " +
				"replica, tried again. lost: refused, since the own lease or claim was over. taken_over: somebody let his lease expire.",
			Queries: one(rate("rowlock_lock_conflicts_total", "lock", "reason"), "{{lock}}, {{reason}}"),
		},
	}}
}

// groupRow is group commit, platform/coalesce.
func groupRow() Row {
	return Row{Title: "Group commit", Panels: []Panel{
		{
			Title: "Requests per statement", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Mean size of a group. 1 when idle; the busier, the larger. Above some 400 a group is full (500) and requests queue.",
			Queries:     one(mean("rowlock_coalesce_batch_size", "coalescer"), "{{coalescer}}"),
		},
		{
			Title: "Wait for a group, 99 of 100", Kind: KindTimeseries, Unit: UnitSeconds, Width: 6, Warn: 0.2, Bad: 1,
			Description: "From a request's arrival until its statement was sent: about as long as the statement before it took.",
			Queries:     one(quantile(0.99, "rowlock_coalesce_wait_seconds", "coalescer"), "{{coalescer}}"),
		},
		{
			Title: "Queue", Kind: KindTimeseries, Unit: UnitShort, Width: 6, Warn: 512, Bad: 1024,
			Description: "Requests that wait to be sent, on the fullest replica; at MAX_IN_FLIGHT (1024) further ones are refused. " +
				"locked: keys that a stranger holds, with a lane of their own.",
			Queries: []Query{
				{Expr: "max by (coalescer) (rowlock_coalesce_queue_length{$sel})", Legend: "{{coalescer}}"},
				{Expr: "sum by (coalescer) (rowlock_coalesce_slow_keys{$sel})", Legend: "{{coalescer}}, locked"},
			},
		},
		{
			Title: "Requests refused", Kind: KindTimeseries, Unit: UnitOps, Width: 6, Bad: 1,
			Description: "With 503, so callers repeat. queue full: more comes than the database commits. locked out: the row stayed locked for " +
				"DB_LOCK_TIMEOUT.",
			Queries: []Query{
				{Expr: rate("rowlock_coalesce_queue_full_total", "coalescer"), Legend: "{{coalescer}}, queue full"},
				{Expr: rate("rowlock_coalesce_locked_out_total", "coalescer"), Legend: "{{coalescer}}, locked out"},
			},
		},
	}}
}

// databaseRow is the way to the database, by labels beside the pool.
func databaseRow(legend string, by ...string) Row {
	with := func(label string) ([]string, string) {
		return append(append([]string{}, by...), label), legend + "{{" + label + "}}"
	}
	pool, poolLegend := with("pool")
	state, stateLegend := with("sqlstate")
	operation, operationLegend := with("operation")
	return Row{Title: "Database", Panels: []Panel{
		{
			Title: "Pool in use", Kind: KindTimeseries, Unit: UnitShare, Width: 6, Warn: 0.8, Bad: 1,
			Description: "Connections in use, as a part of DB_MAX_OPEN_CONNS, on the replica where it is fullest. At 100 % calls wait: see beside.",
			Queries:     one(poolShare(pool...), poolLegend),
		},
		{
			Title: "Calls that wait for a connection", Kind: KindTimeseries, Unit: UnitShort, Width: 6, Stack: true, Warn: 1,
			Description: "On average, at any moment: seconds waited per second. Above 1 for long: the database is slow, or the pool too small.",
			Queries:     one(rate("rowlock_db_wait_seconds_total", pool...), poolLegend),
		},
		{
			Title: "Run again", Kind: KindTimeseries, Unit: UnitOps, Width: 6,
			Description: "Transactions that the database gave up and that were tried again, nothing of them applied: 40P01 a deadlock, 40001 a " +
				"serialization failure, 0A000 a migration meanwhile. Deadlocks should be none: a stranger locks in another order.",
			Queries: one(rate("rowlock_retries_total", state...), stateLegend),
		},
		{
			Title: "Outcome unknown", Kind: KindTimeseries, Unit: UnitShort, Width: 6, Bad: 1,
			Description: "Changes whose COMMIT got no answer and could not be looked up, in each interval. A handful after a failover of the " +
				"database is as it should be; without one, something cuts connections.",
			Queries: one(fmt.Sprintf("sum%s (increase(%s[$__rate_interval]))", clause(operation), matched("rowlock_outcome_unknown_total")),
				operationLegend),
		},
	}}
}

// processRow are the processes of one service.
func processRow() Row {
	return Row{Title: "Processes", Panels: []Panel{
		{
			Title: "Requests in flight", Kind: KindTimeseries, Unit: UnitShort, Width: 6, Bad: 1024,
			Description: "Per replica. At MAX_IN_FLIGHT (1024) further ones are answered 503 OVERLOADED. Replicas that differ much: the balancer.",
			Queries:     one("sum by (pod) (http_server_requests_in_flight{$sel})", "{{pod}}"),
		},
		{
			Title: "CPU", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Cores in use, per process. The autoscaler looks at this.",
			Queries:     one("rate(process_cpu_seconds_total{$sel}[$__rate_interval])", "{{pod}}"),
		},
		{
			Title: "Memory", Kind: KindTimeseries, Unit: UnitBytes, Width: 6,
			Description: "Resident, per process. Flat under load; it should stay well below the container's limit.",
			Queries:     one("process_resident_memory_bytes{$sel}", "{{pod}}"),
		},
		{
			Title: "Restarts and versions", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Processes by version, and how many began anew in the same pod in the last quarter of an hour. Two versions for " +
				"long: a rollout that hangs.",
			Queries: []Query{
				{Expr: "count by (version) (rowlock_build_info{$sel})", Legend: "{{version}}"},
				{Expr: "sum(changes(process_start_time_seconds{$sel}[15m]))", Legend: "restarts"},
			},
		},
	}}
}
