package dashboard

var _ = register(events)

func events() *Dashboard {
	d := ofService("events", "Gapless ids, and events to which workers give a value, each exactly once. "+
		"Two things can fail: ids are not assigned, or events are not worked.")
	d.Rows = []Row{
		serviceGlance(
			stat("Pending", UnitShort,
				"Events without a value yet. Every process counts the same table each 10 s, so this is the maximum, not the sum.",
				query("max(events_pending{$sel})", "events")),
			stat("Age of the oldest", UnitShort,
				"Age of the oldest pending event, in events added since, as no time is stored. It grows steadily when no worker "+
					"runs, or when a transaction keeps events locked.",
				query("max(events_oldest_pending_distance{$sel})", "events since")),
		),
		apiRow(), latencyRow(),
		{Title: "Workers", Panels: []Panel{
			series("Events in and out", UnitOps,
				"Events added, and events given a value. When out stays below in, add workers or raise WORKER_CONCURRENCY.",
				query(rate(`http_server_request_duration_seconds_count{method="POST",status=~"20."}`), "in"),
				query(rate("events_worked_total"), "out")),
			series("Backlog", UnitShort,
				"Pending events, and the number added since the oldest of them. Both grow: too few workers. Only the age grows: "+
					"a transaction keeps a few events locked.",
				query("max(events_pending{$sel})", "pending"),
				query("max(events_oldest_pending_distance{$sel})", "age of the oldest")),
			series("Work by process", UnitOps,
				"Events given a value by each process. A worker at zero beside busy ones is stuck: see its log.",
				query(rate(`events_worked_total{app_kubernetes_io_component="work"}`, "pod"), "{{pod}}")).stacked(),
			series("Events in a batch", UnitShort,
				"Events worked in one transaction, on average. WORKER_BATCH (100) means a backlog.",
				query(mean("events_claimed_batch_size"), "events")),
			series("Polls that found nothing", UnitOps,
				"An idle worker polls every 1 to 1.5 s. Zero: all workers are busy, or none runs.",
				query(rate("events_empty_polls_total", "pod"), "{{pod}}")),
			series("Batches that failed", UnitOps,
				"Rolled back, or with an unknown outcome. The next batch works their events; repeated failures point to the "+
					"database or to one event.",
				query(rate("events_failed_batches_total"), "failed")).limits(0, 1),
		}},
		groupRow(), lockRow("the one row of status"), databaseRow(""), processRow(),
	}
	return d
}
