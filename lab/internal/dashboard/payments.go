package dashboard

var _ = register(payments)

func payments() *Dashboard {
	d := ofService("payments", "Ride payments that are charged once. Two things must not happen: a charge "+
		"without a payment, and a transaction that hangs.")
	d.Rows = []Row{
		serviceGlance(
			stat("Unsettled charges", UnitShort,
				"Cards charged more than IDEMPOTENCY_TTL ago without a payment behind it, as of the last cleanup. Each needs an "+
					"operator: see the runbook. Every replica counts the same ledger, so this is the maximum, not the sum.",
				query("max(payments_unsettled_charges{$sel})", "charges")).limits(0, 1),
			stat("Oldest transaction", UnitSeconds,
				"Age of the oldest open payment transaction. Above LOCK_WAIT + PROCESSOR_TIMEOUT (6 s) something hangs.",
				query("max(payments_transaction_oldest_seconds{$sel})", "open for")).limits(3, 6),
		),
		apiRow(),
		{Title: "Payments", Panels: []Panel{
			series("Payments", UnitOps,
				"Payments stored per second. DECLINED is a result, and is stored too.",
				query(rate("payments_total", "status"), "{{status}}")).stacked(),
			series("Replayed answers", UnitOps,
				"Repeated requests that got the stored answer. Many: callers time out before they are answered. other request: "+
					"one key for two different requests, a caller's bug.",
				query(rate("payments_replays_total"), "replayed"), query(rate("payments_conflicts_total"), "other request")),
			series("Open transactions", UnitShort,
				"Payment transactions that are open, per replica. The limit is DB_MAX_OPEN_CONNS - 2 (6); there, new payments "+
					"queue and are then answered 503 OVERLOADED.",
				query("payments_transactions_open{$sel}", "{{pod}}")).limits(6, 0),
			series("Oldest transaction", UnitSeconds,
				"Per replica. High on one replica: restart it. High on all: the processor exceeds its timeout, or the database "+
					"does not answer.",
				query("payments_transaction_oldest_seconds{$sel}", "{{pod}}")).limits(0, 6),
		}},
		{Title: "Processor and clean-up", Panels: []Panel{
			series("Processor faults", UnitOps,
				"Payments answered 502 (the processor failed) or 504 (it did not answer in time). Nothing is stored; callers "+
					"repeat with the same key and are charged once.",
				query(rate(`http_server_request_duration_seconds_count{status=~"502|504"}`, "status")+
					` or label_replace(vector(0), "status", "none", "", "")`, "{{status}}")),
			series("Unsettled charges", UnitShort,
				"As above, over time. A step comes IDEMPOTENCY_TTL after its cause: look for faults at that earlier time.",
				query("max(payments_unsettled_charges{$sel})", "charges")).limits(0, 1),
			series("Expired keys deleted", UnitOps,
				"Deleted by the cleanup, which the replicas share. Zero for longer than CLEANUP_INTERVAL while payments come "+
					"in: it does not run.",
				query(rate("payments_cleanup_deleted_total"), "deleted")),
		}},
		lockRow("the idempotency key"), databaseRow(""), processRow(),
	}
	return d
}
