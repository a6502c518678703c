package dashboard

func events() *Dashboard {
	d := ofService("events", "Gapless ids, and events to which workers give a value, each exactly once. "+
		"Two things can fail: ids are not assigned, or events are not worked.")
	d.Rows = []Row{
		serviceGlance(
			stat("Pending", UnitShort,
				"Events without a value yet. Every process counts the same table each 10 s, so this is the maximum, not "+
					"the sum.",
				one("max(events_pending{$sel})", "events")),
			stat("Age of the oldest", UnitShort,
				"Age of the oldest pending event, in events added since, as no time is stored. It grows steadily when no "+
					"worker runs, or when a transaction keeps events locked.",
				one("max(events_oldest_pending_distance{$sel})", "events since")),
		),
		apiRow(),
		{Title: "Workers", Panels: []Panel{
			series("Events in and out", UnitOps, 8,
				"Events added, and events given a value. When out stays below in, add workers or raise "+
					"WORKER_CONCURRENCY.",
				[]Query{
					{
						Expr:   rate(`http_server_request_duration_seconds_count{method="POST",status=~"20."}`),
						Legend: "in",
					},
					{Expr: rate("events_worked_total"), Legend: "out"},
				}),
			series("Backlog", UnitShort, 8,
				"Pending events, and the number added since the oldest of them. Both grow: too few workers. Only the age "+
					"grows: a transaction keeps a few events locked.",
				[]Query{
					{Expr: "max(events_pending{$sel})", Legend: "pending"},
					{Expr: "max(events_oldest_pending_distance{$sel})", Legend: "age of the oldest"},
				}),
			series("Work by process", UnitOps, 8,
				"Events given a value by each process. A worker at zero beside busy ones is stuck: see its log.",
				one(rate(`events_worked_total{app_kubernetes_io_component="work"}`, "pod"), "{{pod}}")).stacked(),
			series("Events in a batch", UnitShort, 8,
				"Events worked in one transaction, on average. WORKER_BATCH (100) means a backlog.",
				one(mean("events_claimed_batch_size"), "events")),
			series("Polls that found nothing", UnitOps, 8,
				"An idle worker polls every 1 to 1.5 s. Zero: all workers are busy, or none runs.",
				one(rate("events_empty_polls_total", "pod"), "{{pod}}")),
			series("Batches that failed", UnitOps, 8,
				"Rolled back, or with an unknown outcome. The next batch works their events; repeated failures point to "+
					"the database or to one event.",
				one(rate("events_failed_batches_total"), "failed")).limits(0, 1),
		}},
		groupRow(), lockRow("the one row of status"), databaseRow(""), processRow(),
	}
	return d
}
