package dashboard

// overview is where one looks first: all services, side by side.
func overview() *Dashboard {
	return &Dashboard{
		Name: "overview", Title: "Rowlock",
		Description: "All services at a glance. From above: is anybody hurt, what is asked, how long does it take, what is full, " +
			"who waits for whose lock, how is the database. A click on a service leads to its own dashboard.",
		Selector: ofRelease + `,app_kubernetes_io_name=~"$service"`,
		Variables: releases(Variable{
			Name: "service", Label: "Service",
			Query: `label_values(rowlock_build_info{` + ofRelease + `}, app_kubernetes_io_name)`,
		}),
		Rows: []Row{glance(), traffic(), latency(), saturation(), replicas(), locks(), databaseRow(byService+", ", service)},
	}
}

func glance() Row {
	return Row{Title: atAGlance, Panels: []Panel{
		{
			Title: "Alerts", Kind: KindStat, Unit: UnitShort, Width: 4, Bad: 1,
			Description: "Alerts of Rowlock that fire now, of all services. Each has a page in docs/runbook.md.",
			Queries:     one("count("+AlertsExpr+") or vector(0)", "firing"),
		},
		statReplicas(),
		statRequests(),
		statFailed(),
		statLatency(),
		{
			Title: "Fullest pool", Kind: KindStat, Unit: UnitShare, Width: 4, Warn: 0.8, Bad: 1,
			Description: "Connections in use of the replica that has the fewest left. At 100 % its calls wait for a connection.",
			Queries:     one(poolShare(), "in use"),
		},
	}}
}

func traffic() Row {
	return Row{Title: "Traffic and errors", Panels: []Panel{
		{
			Title: "Requests", Kind: KindTimeseries, Unit: UnitRate, Width: 8, ByService: true,
			Description: "Requests to the APIs per second.",
			Queries:     one(rate("http_server_request_duration_seconds_count", service), byService),
		},
		{
			Title: "Failed", Kind: KindTimeseries, Unit: UnitShare, Width: 8, ByService: true, Warn: 0.001, Bad: 0.01,
			Description: "Part of the requests that were answered 5xx. The goal is below 0.1 %; short peaks while the database restarts are " +
				"503, which callers repeat.",
			Queries: one(failedShare(service), byService),
		},
		{
			Title: "Answers by status", Kind: KindTimeseries, Unit: UnitRate, Width: 8, Stack: true,
			Description: "Of all services. 503: surely not applied, repeated by callers. 500: outcome unknown, or a bug. 502 and 504: payments' " +
				"processor. 409: pots and keys that others are busy with. Other 4xx: callers' mistakes.",
			Queries: one(rate("http_server_request_duration_seconds_count", "status"), "{{status}}"),
		},
	}}
}

func latency() Row {
	return Row{Title: "Latency", Panels: []Panel{
		{
			Title: "Half answered within", Kind: KindTimeseries, Unit: UnitSeconds, Width: 8, ByService: true,
			Description: "The usual request: a commit, or the share of one. When all services rise together it is the database.",
			Queries:     one(quantile(0.5, "http_server_request_duration_seconds", service), byService),
		},
		{
			Title: "99 of 100 answered within", Kind: KindTimeseries, Unit: UnitSeconds, Width: 8, ByService: true, Warn: 0.2, Bad: 1,
			Description: "The unlucky request: it met a lock, a full pool or a full queue. See the rows of locks and of the database.",
			Queries:     one(quantile(0.99, "http_server_request_duration_seconds", service), byService),
		},
		{
			Title: "Slower than 0.2 s", Kind: KindTimeseries, Unit: UnitShare, Width: 8, ByService: true, Warn: 0.01, Bad: 0.1,
			Description: "Part of the requests that took longer than the goal. Unlike the curves beside it, this counts callers.",
			Queries: one("clamp_min(1 - "+rate(`http_server_request_duration_seconds_bucket{le="0.2"}`, service)+
				" / "+rate("http_server_request_duration_seconds_count", service)+", 0)", byService),
		},
	}}
}

func saturation() Row {
	return Row{Title: "Saturation", Panels: []Panel{
		{
			Title: "Requests in flight", Kind: KindTimeseries, Unit: UnitShort, Width: 6, ByService: true, Bad: 1024,
			Description: "On the busiest replica of each service. At MAX_IN_FLIGHT (1024) further ones are answered 503 OVERLOADED.",
			Queries:     one("max by (app_kubernetes_io_name) (http_server_requests_in_flight{$sel})", byService),
		},
		{
			Title: "CPU", Kind: KindTimeseries, Unit: UnitShort, Width: 6, ByService: true,
			Description: "Cores in use by all replicas of each service.",
			Queries:     one(rate("process_cpu_seconds_total", service), byService),
		},
		{
			Title: "Memory", Kind: KindTimeseries, Unit: UnitBytes, Width: 6, ByService: true,
			Description: "Resident, of the largest process of each service. Flat under load; the container's limit is 256 MiB (iidy: 1 GiB).",
			Queries:     one("max by (app_kubernetes_io_name) (process_resident_memory_bytes{$sel})", byService),
		},
		{
			Title: "Spans lost", Kind: KindTimeseries, Unit: UnitOps, Width: 6, ByService: true,
			Description: "Of traces, for which requests never wait. dropped: the queue was full, record less (OTEL_TRACES_SAMPLER) or make it " +
				"longer. failed: the collector refused at least one of their batch, or did not answer. Traces have gaps meanwhile.",
			Queries: one(rate(`rowlock_trace_spans_total{outcome!="exported"}`, service, "outcome"), byService+", {{outcome}}"),
		},
	}}
}

// ofScalers finds the autoscalers by the names that the chart gives them: kube-state-metrics has no other labels of them.
const ofScalers = `{namespace=~"$namespace",horizontalpodautoscaler=~"($release)-($service)(-work)?"}`

func replicas() Row {
	return Row{Title: "Replicas", Panels: []Panel{
		{
			Title: "Replicas", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Processes that Prometheus reaches; work are events' workers.",
			Queries: one("sum by (app_kubernetes_io_name, app_kubernetes_io_component) (up{$sel})",
				byService+" {{app_kubernetes_io_component}}"),
		},
		{
			Title: "Scaled, of the maximum", Kind: KindTimeseries, Unit: UnitShare, Width: 6, Warn: 1,
			Description: "Replicas that each autoscaler wants, as a part of those it may have. At 100 % for long: raise maxReplicas, and " +
				"look at the " +
				"connection budget. Needs kube-state-metrics.",
			Queries: one(`max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_status_desired_replicas`+ofScalers+
				` / kube_horizontalpodautoscaler_spec_max_replicas`+ofScalers+`)`,
				"{{horizontalpodautoscaler}}"),
		},
		{
			Title: "Restarts", Kind: KindTimeseries, Unit: UnitShort, Width: 6, ByService: true, Bad: 1,
			Description: "Processes that began anew in the same pod, in the last quarter of an hour. `kubectl describe pod` says why.",
			Queries:     one("sum by (app_kubernetes_io_name) (changes(process_start_time_seconds{$sel}[15m]))", byService),
		},
		{
			Title: "Versions", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Processes by version. Two for long: a rollout that hangs.",
			Queries:     one("count by (version) (rowlock_build_info{$sel})", "{{version}}"),
		},
	}}
}

func locks() Row {
	return Row{Title: "Locks", Panels: []Panel{
		{
			Title: "Wait for a lock, 99 of 100", Kind: KindTimeseries, Unit: UnitSeconds, Width: 6, ByService: true, Warn: 1, Bad: 5,
			Description: "In the database, until the lock was held or given up. Milliseconds are replicas that meet on a hot row; seconds are " +
				"somebody who does not let go.",
			Queries: one(quantile(0.99, `rowlock_lock_wait_seconds{where="database"}`, service), byService),
		},
		{
			Title: "Callers that wait for a lock", Kind: KindTimeseries, Unit: UnitShort, Width: 6, ByService: true, Stack: true,
			Description: "On average, at any moment, in the process and in the database: seconds waited per second.",
			Queries:     one(rate("rowlock_lock_wait_seconds_sum", service), byService),
		},
		{
			Title: "Lock conflicts", Kind: KindTimeseries, Unit: UnitOps, Width: 6, ByService: true,
			Description: "lock_timeout, queue_timeout: gave up, 503 or 409. held: a pot leased to another replica, tried again. lost, taken_over: " +
				"holders that died or stalled.",
			Queries: one(rate("rowlock_lock_conflicts_total", service, "reason"), byService+", {{reason}}"),
		},
		{
			Title: "Requests per statement", Kind: KindTimeseries, Unit: UnitShort, Width: 6,
			Description: "Mean size of the groups that share one statement and one commit (counts, events, iidy). It grows with the load: " +
				"that is how " +
				"a hot row stays fast.",
			Queries: one(mean("rowlock_coalesce_batch_size", "coalescer"), "{{coalescer}}"),
		},
	}}
}
