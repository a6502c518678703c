package dashboard

var _ = register(payments)

func payments() *Dashboard {
	d := ofService("payments", "Ride payments that are charged once. Two things must not last: a charge "+
		"without a payment, and a payment that outlives its claim.")
	d.Rows = []Row{
		serviceGlance(
			stat("Unsettled charges", UnitShort,
				"Payments that were given up, and of which it is not known yet whether the card was charged. Replicas settle "+
					"them. Every replica counts the same table, so this is the maximum, not the sum.",
				query("max(payments_unsettled_charges{$sel})", "payments")).limits(0, 1),
			stat("Oldest claim", UnitSeconds,
				"Age of the oldest payment in flight. Above PROCESSOR_TIMEOUT + 1 s (4 s) its claim has run out.",
				query("max(payments_claim_oldest_seconds{$sel})", "open for")).limits(3, 4),
		),
		apiRow(), latencyRow(),
		{Title: "Payments", Panels: []Panel{
			series("Payments", UnitOps,
				"Payments stored per second. DECLINED is a result, and is stored too.",
				query(rate("payments_total", "status"), "{{status}}")).stacked(),
			series("Replayed answers", UnitOps,
				"Repeated requests that got the stored answer. Many: callers time out before they are answered. other request: "+
					"one key for two different requests, a caller's bug.",
				query(rate("payments_replays_total"), "replayed"), query(rate("payments_conflicts_total"), "other request")),
			series("Payments in flight", UnitShort,
				"Payments that are claimed and not settled, per replica: most of them wait for the processor, without a "+
					"connection. The limit is MAX_IN_FLIGHT.",
				query("payments_claims_open{$sel}", "{{pod}}")),
			series("Oldest claim", UnitSeconds,
				"Per replica. High on one replica: restart it. High on all: the processor exceeds its timeout, or the database "+
					"does not answer.",
				query("payments_claim_oldest_seconds{$sel}", "{{pod}}")).limits(0, 4),
		}},
		{Title: "Processor and clean-up", Panels: []Panel{
			series("Processor faults", UnitOps,
				"Payments answered 502 (the processor failed) or 504 (it did not answer in time). No payment is stored; callers "+
					"repeat with the same key and are charged once.",
				query(rate(`http_server_request_duration_seconds_count{status=~"502|504"}`, "status")+
					` or label_replace(vector(0), "status", "none", "", "")`, "{{status}}")),
			series("Unsettled charges", UnitShort,
				"As above, over time. A step that stays for hours: requests that never reached the processor, such as a killed "+
					"replica's.",
				query("max(payments_unsettled_charges{$sel})", "payments")).limits(0, 1),
			series("Expired keys deleted", UnitOps,
				"Deleted by the cleanup, which the replicas share. Zero for longer than CLEANUP_INTERVAL while payments come "+
					"in: it does not run.",
				query(rate("payments_cleanup_deleted_total"), "deleted")),
		}},
		groupRow(), lockRow("the idempotency key"), databaseRow(""), processRow(),
	}
	return d
}
