package dashboard

var _ = register(iidy)

func iidy() *Dashboard {
	d := ofService("iidy", "Attempt lists. Requests for single items share statements, a batch is a "+
		"statement of its own, and a long one goes through a file. Workers share lists by claims.")
	d.Rows = []Row{
		serviceGlance(
			stat("Items changed", UnitOps,
				"Items added, incremented, deleted, claimed and so on, per second. One request may carry millions.",
				query(rate("iidy_items_total"), "items")),
			stat("Long batches", UnitShort,
				"Long batches that are applied on the busiest replica. At BULK_IN_FLIGHT (2) the next one waits its turn.",
				query("max(iidy_bulk_in_flight{$sel})", "under way")).limits(2, 0),
		),
		apiRow(), latencyRow(),
		{Title: "Items", Panels: []Panel{
			series("Items changed", UnitOps,
				"Items changed per second; an item that was there already, or was missing, does not count. deleted far below "+
					"claimed: workers do not finish their items.",
				query(rate("iidy_items_total", "change"), "{{change}}")),
			series("Items in a batch", UnitShort,
				"Items sent in a batch, on average. Above 10,000 a batch is long: it takes a slot, a connection and a temporary "+
					"table.",
				query(mean("iidy_batch_items", "change"), "{{change}}")),
			series("Long batches", UnitShort,
				"Applied at once, per replica, and refused per second because no turn among BULK_IN_FLIGHT (2) came in time.",
				query("iidy_bulk_in_flight{$sel}", "{{pod}}"),
				query(rate("iidy_bulk_refused_total"), "refused per second")).limits(2, 0),
			series("Spool", UnitBytes,
				"Bytes of batches in temporary files, per replica, while they arrive and are applied. At SPOOL_MAX uploads are "+
					"answered 503.",
				query("iidy_spool_bytes{$sel}", "{{pod}}")),
		}},
		{Title: "Claims", Panels: []Panel{
			series("Claimed and finished", UnitOps,
				"Items claimed, finished (deleted), released and extended. Claimed should equal finished, plus retries.",
				query(rate(`iidy_items_total{change=~"claimed|deleted|released|extended|abandoned"}`, "change"), "{{change}}")),
			series("Expired claims", UnitOps,
				"Items claimed again after their lease expired. That is how failed items are retried; more means that workers "+
					"die or are slower than their lease.",
				query(rate(`rowlock_lock_conflicts_total{reason="taken_over"}`), "taken over")),
			series("Changes under a lost claim", UnitOps,
				"Changes by workers whose lease had expired and whose items another worker had claimed: nothing was changed. "+
					"Use longer leases or smaller claims.",
				query(rate(`rowlock_lock_conflicts_total{reason="lost"}`), "lost")),
		}},
		groupRow(), lockRow("the rows of the items, in order"), databaseRow(""), processRow(),
	}
	return d
}
