package dashboard

import "slices"

// overview shows all services side by side.
func overview() *Dashboard {
	return &Dashboard{
		Name: "overview", Title: "Rowlock",
		Description: "All services: errors, traffic, latency, saturation, replicas, locks and the database. " +
			"A click on a service opens its own dashboard.",
		Selector: ofRelease + `,app_kubernetes_io_name=~"$service"`,
		Variables: releases(Variable{
			Name: "service", Label: "Service",
			Query: `label_values(rowlock_build_info{` + ofRelease + `}, app_kubernetes_io_name)`,
		}),
		Rows: []Row{
			glance(), traffic(), rollout(), latency(), saturation(), replicas(), locks(),
			databaseRow(byService+", ", service),
		},
	}
}

func glance() Row {
	return Row{Title: atAGlance, Panels: slices.Concat(
		[]Panel{stat("Alerts", UnitShort,
			"Alerts of all services that fire now. Each has a section in docs/runbook.md.",
			query("count("+AlertsExpr+") or vector(0)", "firing")).limits(0, 1)},
		figures(),
		[]Panel{stat("Fullest pool", UnitShare,
			"Connections in use on the replica with the fewest left. At 100 % its calls wait for a connection.",
			query(poolShare(), "in use")).limits(0.8, 1)},
	)}
}

func traffic() Row {
	return Row{Title: "Traffic and errors", Panels: []Panel{
		series("Requests", UnitRate,
			"Requests to the APIs per second.",
			query(rate(requestCount, service), byService)).byService(),
		series("Failed", UnitShare,
			"Part of the requests that were answered 5xx. The default objective is below 0.1 %; short peaks while the database "+
				"restarts are 503, which callers repeat.",
			query(failedShare(service), byService)).limits(0.001, 0.01).byService(),
		series("Answers by status", UnitRate,
			"All services. 503: not applied, callers repeat it. 500: outcome unknown, or a bug. 502 and 504: payments' "+
				"processor. 409: pots and keys that another request holds. Other 4xx: callers' mistakes.",
			query(rate(requestCount, "status"), "{{status}}")).stacked(),
	}}
}

func latency() Row {
	return Row{Title: "Latency", Panels: []Panel{
		series("Median latency", UnitSeconds,
			"The median request: a commit, or a share of one. When all services rise together, the database is slow.",
			query(quantile(0.5, requestSeconds, service), byService)).byService(),
		series("99th percentile of latency", UnitSeconds,
			"The slowest percent of the requests: they waited for a lock, a pool or a queue. See the rows Locks and Database.",
			query(quantile(0.99, requestSeconds, service), byService)).limits(0.2, 1).exemplars().byService(),
		series("Slower than 0.2 s", UnitShare,
			"Part of the requests that took longer than the objective. Unlike the quantiles, this counts callers.",
			query("clamp_min(1 - "+rate(`http_server_request_duration_seconds_bucket{le="0.2"}`, service)+
				" / "+rate(requestCount, service)+", 0)", byService)).limits(0.01, 0.1).byService(),
	}}
}

func saturation() Row {
	return Row{Title: "Saturation", Panels: []Panel{
		series("Requests in flight", UnitShort,
			"On the busiest replica of each service. At MAX_IN_FLIGHT (1024) further requests are answered 503 OVERLOADED.",
			query("max by (app_kubernetes_io_name) (http_server_requests_in_flight{$sel})", byService)).limits(0,
			1024).byService(),
		series("CPU", UnitShort,
			"Cores in use by all replicas of each service.",
			query(rate("process_cpu_seconds_total", service), byService)).byService(),
		series("Memory", UnitBytes,
			"Resident memory of the largest process of each service. Flat under load; the container's limit is 256 MiB "+
				"(iidy: 1 GiB).",
			query("max by (app_kubernetes_io_name) (process_resident_memory_bytes{$sel})", byService)).byService(),
		series("Spans lost", UnitOps,
			"Spans that were not exported; requests do not wait for the export. dropped: the queue was full; sample less "+
				"(OTEL_TRACES_SAMPLER) or make it longer. failed: the collector refused a span of the batch, or did not answer. "+
				"Traces have gaps then.",
			query(rate(`rowlock_trace_spans_total{outcome!="exported"}`, service, "outcome"),
				byService+", {{outcome}}")).byService(),
	}}
}

// ofWorkloads matches the Deployments or autoscalers by the names that the chart gives them: kube-state-metrics has no
// other labels of them.
func ofWorkloads(label string) string {
	return `{namespace=~"$namespace",` + label + `=~"($release)-($service)(-work)?"}`
}

// acknowledged selects the requests that changed something and were told so. Reads by RPC are POST too.
const acknowledged = requestCount +
	`{status=~"2..",method=~"POST|PUT|PATCH|DELETE",route!~".*/(View|List).*|/grpc.*"}`

// rollout shows what replacing the replicas costs their callers: nothing but some waits.
func rollout() Row {
	return Row{Title: "A rollout", Panels: []Panel{
		series("Replicas ready", UnitShort,
			"Replicas that get requests, per Deployment: one fewer while a replica starts (maxSurge 0). "+
				"Needs kube-state-metrics.",
			query("max by (deployment) (kube_deployment_status_replicas_ready"+ofWorkloads("deployment")+")",
				"{{deployment}}")),
		series("Versions", UnitShort,
			"Processes by version. Two for a long time: a rollout hangs.",
			query("count by (version) (rowlock_build_info{$sel})", "{{version}}")),
		lockWaits(),
		stat("Changes acknowledged", UnitShort,
			"Sum over the time that is shown: select a rollout. All of them are in the database, repeated answers counted "+
				"again; those with an unknown outcome may be. What a new replica answered before its first scrape is missing.",
			query("sum by (app_kubernetes_io_name) (increase("+matched(acknowledged)+"[$__range]))", byService),
			query("sum(increase("+matched("rowlock_outcome_unknown_total")+"[$__range]))", "outcome unknown")).byService(),
	}}
}

func replicas() Row {
	scalers := ofWorkloads("horizontalpodautoscaler")
	return Row{Title: "Replicas", Panels: []Panel{
		series("Replicas", UnitShort,
			"Processes that Prometheus reaches; work are events' workers.",
			query("sum by (app_kubernetes_io_name, app_kubernetes_io_component) (up{$sel})",
				byService+" {{app_kubernetes_io_component}}")),
		series("Replicas desired, of the maximum", UnitShare,
			"Desired replicas of each autoscaler, as a part of its maximum. When it stays at 100 %, raise maxReplicas within "+
				"the connection budget. Needs kube-state-metrics.",
			query(`max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_status_desired_replicas`+scalers+
				` / kube_horizontalpodautoscaler_spec_max_replicas`+scalers+`)`, "{{horizontalpodautoscaler}}")).limits(1, 0),
		series("Restarts", UnitShort,
			"Containers restarted in the same pod in the last 15 minutes. `kubectl describe pod` says why.",
			query("sum by (app_kubernetes_io_name) (changes(process_start_time_seconds{$sel}[15m]))", byService)).limits(0,
			1).byService(),
	}}
}

func lockWaits() Panel {
	return series("Wait for a lock, 99th percentile", UnitSeconds,
		"In the database, until the lock was taken or the wait ended. Milliseconds: replicas share a hot row. Seconds: "+
			"another transaction keeps its lock.",
		query(quantile(0.99, `rowlock_lock_wait_seconds{where="database"}`, service), byService)).limits(1, 5).byService()
}

func locks() Row {
	return Row{Title: "Locks", Panels: []Panel{
		lockWaits(),
		series("Callers waiting for a lock", UnitShort,
			"On average at any moment, in the process and in the database (seconds waited per second).",
			query(rate("rowlock_lock_wait_seconds_sum", service), byService)).stacked().byService(),
		series("Lock conflicts", UnitOps,
			"lock_timeout, queue_timeout: the wait ended, 503 or 409. crowded: refused at once, 503. "+
				"held: a pot leased to another replica, tried again. "+
				"lost, taken_over: holders that died or stalled.",
			query(rate("rowlock_lock_conflicts_total", service, "reason"), byService+", {{reason}}")).byService(),
		series("Requests per statement", UnitShort,
			"Mean size of the groups that share one statement and one commit. It grows with the load: "+
				"that is how a hot row stays fast.",
			query(mean("rowlock_coalesce_batch_size", "coalescer"), "{{coalescer}}")),
	}}
}
