package dashboard

func events() *Dashboard {
	d := ofService("events", "Gapless ids, and events that workers give a value, each exactly once. Two things can go wrong: "+
		"nobody gets an id, "+
		"or nobody works.")
	d.Rows = []Row{
		serviceGlance(
			Panel{
				Title: "Pending", Kind: KindStat, Unit: UnitShort, Width: 4,
				Description: "Events that wait for a worker. All processes look at the same table, every 10 s: this is the largest figure, not " +
					"the sum.",
				Queries: one("max(events_pending{$sel})", "events"),
			},
			Panel{
				Title: "Age of the oldest", Kind: KindStat, Unit: UnitShort, Width: 4,
				Description: "Of the pending events, counted in events that were added since, as no time is stored. It grows without end: " +
					"nobody works, " +
					"or one transaction holds some events and does not let go.",
				Queries: one("max(events_oldest_pending_distance{$sel})", "events since"),
			},
		),
		apiRow(),
		{Title: "Workers", Panels: []Panel{
			{
				Title: "Events in and out", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Answered with an id, and given a value. For long, out must not be below in: more workers, or WORKER_CONCURRENCY.",
				Queries: []Query{
					{Expr: `sum(rate(http_server_request_duration_seconds_count{$sel,method="POST",status=~"20."}[$__rate_interval]))`, Legend: "in"},
					{Expr: rate("events_worked_total"), Legend: "out"},
				},
			},
			{
				Title: "Backlog", Kind: KindTimeseries, Unit: UnitShort, Width: 8,
				Description: "Pending events, and how many were added since the oldest of them. Both grow: too few workers. The age alone grows: " +
					"a few events are held by somebody.",
				Queries: []Query{
					{Expr: "max(events_pending{$sel})", Legend: "pending"},
					{Expr: "max(events_oldest_pending_distance{$sel})", Legend: "age of the oldest"},
				},
			},
			{
				Title: "Work by process", Kind: KindTimeseries, Unit: UnitOps, Width: 8, Stack: true,
				Description: "Events given a value by each process. Workers that do nothing beside busy ones are stuck: their logs say why.",
				Queries:     one(rate(`events_worked_total{app_kubernetes_io_component="work"}`, "pod"), "{{pod}}"),
			},
			{
				Title: "Events in a batch", Kind: KindTimeseries, Unit: UnitShort, Width: 8,
				Description: "Worked in one transaction, on average. At WORKER_BATCH (100) there is a backlog.",
				Queries:     one(mean("events_claimed_batch_size"), "events"),
			},
			{
				Title: "Polls that found nothing", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "An idle worker looks every 1 to 1.5 s. None: workers are busy all the time, or there are none.",
				Queries:     one(rate("events_empty_polls_total", "pod"), "{{pod}}"),
			},
			{
				Title: "Batches that failed", Kind: KindTimeseries, Unit: UnitOps, Width: 8, Bad: 1,
				Description: "Rolled back, or of unknown outcome. Their events are worked by the next one; again and again means that something " +
					"is wrong " +
					"with the database or with one event.",
				Queries: one(rate("events_failed_batches_total"), "failed"),
			},
		}},
		groupRow(), lockRow("the one row of status"), databaseRow(""), processRow(),
	}
	return d
}
