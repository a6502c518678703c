package dashboard

func iidy() *Dashboard {
	d := ofService("iidy", "Attempt lists. Requests for single items share statements, a batch is a "+
		"statement of its own, and a long one is streamed. Workers share lists by claims.")
	d.Rows = []Row{
		serviceGlance(
			stat("Items changed", UnitOps,
				"Items added, incremented, deleted, claimed and so on, per second. One request may carry millions.",
				one(rate("iidy_items_total"), "items")),
			stat("Long batches", UnitShort,
				"Long batches in flight on the busiest replica. At BULK_IN_FLIGHT (2) the next one is answered 503.",
				one("max(iidy_bulk_in_flight{$sel})", "under way")).limits(2, 0),
		),
		apiRow(),
		{Title: "Items", Panels: []Panel{
			series("Items changed", UnitOps, 8,
				"Items changed per second; an item that was there already, or was missing, does not count. deleted far "+
					"below claimed: workers do not finish their items.",
				one(rate("iidy_items_total", "change"), "{{change}}")),
			series("Items in a batch", UnitShort, 8,
				"Items sent in a batch, on average. Above 10,000 a batch is long: it takes a slot, a connection and a "+
					"temporary table.",
				one(mean("iidy_batch_items", "change"), "{{change}}")),
			series("Long batches", UnitShort, 8,
				"In flight, per replica, and refused per second because BULK_IN_FLIGHT (2) were in flight.",
				[]Query{
					{Expr: "iidy_bulk_in_flight{$sel}", Legend: "{{pod}}"},
					{Expr: rate("iidy_bulk_refused_total"), Legend: "refused per second"},
				}).limits(2, 0),
		}},
		{Title: "Claims", Panels: []Panel{
			series(
				"Claimed and finished",
				UnitOps,
				8,
				"Items claimed, finished (deleted), released and extended. Claimed should equal finished, plus retries.",
				one(
					`sum by (change) (rate(iidy_items_total{$sel,change=~"claimed|deleted|released|extended|abandoned"}`+
						`[$__rate_interval]))`,
					"{{change}}",
				),
			),
			series("Expired claims", UnitOps, 8,
				"Items claimed again after their lease expired. That is how failed items are retried; more means that "+
					"workers die or are slower than their lease.",
				one(rate(`rowlock_lock_conflicts_total{reason="taken_over"}`), "taken over")),
			series("Changes under a lost claim", UnitOps, 8,
				"Changes by workers whose lease had expired and whose items another worker had claimed: nothing was "+
					"changed. Use longer leases or smaller claims.",
				one(rate(`rowlock_lock_conflicts_total{reason="lost"}`), "lost")),
		}},
		groupRow(), lockRow("the rows of the items, in order"), databaseRow(""), processRow(),
	}
	return d
}
