package dashboard

func payments() *Dashboard {
	d := ofService("payments", "Ride payments that are charged once. What must never be: a charge without a payment, and a transaction "+
		"that hangs.")
	d.Rows = []Row{
		serviceGlance(
			Panel{
				Title: "Unsettled charges", Kind: KindStat, Unit: UnitShort, Width: 4, Bad: 1,
				Description: "Cards charged more than IDEMPOTENCY_TTL ago without a payment behind it, as of the last cleanup. Each needs a person: " +
					"see the runbook. Replicas count the same ledger, so this is the largest figure, not the sum.",
				Queries: one("max(payments_unsettled_charges{$sel})", "charges"),
			},
			Panel{
				Title: "Oldest transaction", Kind: KindStat, Unit: UnitSeconds, Width: 4, Warn: 3, Bad: 6,
				Description: "Age of the oldest open payment transaction. Above LOCK_WAIT + PROCESSOR_TIMEOUT (6 s) something hangs.",
				Queries:     one("max(payments_transaction_oldest_seconds{$sel})", "open for"),
			},
		),
		apiRow(),
		{Title: "Payments", Panels: []Panel{
			{
				Title: "Payments", Kind: KindTimeseries, Unit: UnitOps, Width: 6, Stack: true,
				Description: "Payments stored per second. DECLINED is an answer like any other, and is stored too.",
				Queries:     one(rate("payments_total", "status"), "{{status}}"),
			},
			{
				Title: "Answers given again", Kind: KindTimeseries, Unit: UnitOps, Width: 6,
				Description: "Requests that came again with their key and got the stored answer. Many: callers time out before they are answered. " +
					"other request: one key for two different requests, a caller's bug.",
				Queries: []Query{
					{Expr: rate("payments_replays_total"), Legend: "replayed"},
					{Expr: rate("payments_conflicts_total"), Legend: "other request"},
				},
			},
			{
				Title: "Open transactions", Kind: KindTimeseries, Unit: UnitShort, Width: 6, Warn: 6,
				Description: "Payment transactions that are open, per replica. The limit is DB_MAX_OPEN_CONNS - 2 (6); there, new payments " +
					"queue and are " +
					"then answered 503 OVERLOADED.",
				Queries: one("payments_transactions_open{$sel}", "{{pod}}"),
			},
			{
				Title: "Oldest transaction", Kind: KindTimeseries, Unit: UnitSeconds, Width: 6, Bad: 6,
				Description: "Per replica. On one alone: restart it. On all: the processor does not keep to its timeout, or the database does " +
					"not answer.",
				Queries: one("payments_transaction_oldest_seconds{$sel}", "{{pod}}"),
			},
		}},
		{Title: "Processor and clean-up", Panels: []Panel{
			{
				Title: "Processor faults", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Payments answered 502 (the processor failed) or 504 (it did not answer in time). Nothing is stored; callers " +
					"repeat with " +
					"the same key and are charged once.",
				Queries: one(`sum by (status) (rate(http_server_request_duration_seconds_count{$sel,status=~"502|504"}[$__rate_interval]))`+
					` or label_replace(vector(0), "status", "none", "", "")`, "{{status}}"),
			},
			{
				Title: "Unsettled charges", Kind: KindTimeseries, Unit: UnitShort, Width: 8, Bad: 1,
				Description: "As above, over time. A step is the moment at which IDEMPOTENCY_TTL had passed: look for faults one such time earlier.",
				Queries:     one("max(payments_unsettled_charges{$sel})", "charges"),
			},
			{
				Title: "Expired keys deleted", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "By the cleanup, which the replicas share. None for longer than CLEANUP_INTERVAL while payments go on: it does not run.",
				Queries:     one(rate("payments_cleanup_deleted_total"), "deleted"),
			},
		}},
		lockRow("the idempotency key"), databaseRow(""), processRow(),
	}
	return d
}
