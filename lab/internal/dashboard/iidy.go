package dashboard

func iidy() *Dashboard {
	d := ofService("iidy", "Attempt lists. Single items share statements, batches are one each, and long ones are streamed; workers "+
		"share lists by claims.")
	d.Rows = []Row{
		serviceGlance(
			Panel{
				Title: "Items changed", Kind: KindStat, Unit: UnitOps, Width: 4,
				Description: "Items really added, incremented, deleted, claimed and so on, per second: one request may carry millions.",
				Queries:     one(rate("iidy_items_total"), "items"),
			},
			Panel{
				Title: "Long batches", Kind: KindStat, Unit: UnitShort, Width: 4, Warn: 2,
				Description: "Long batches under way on the busiest replica. At BULK_IN_FLIGHT (2) the next one is answered 503.",
				Queries:     one("max(iidy_bulk_in_flight{$sel})", "under way"),
			},
		),
		apiRow(),
		{Title: "Items", Panels: []Panel{
			{
				Title: "Items changed", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Items really changed per second; what was there already, or was not, does not count. deleted well below claimed: " +
					"workers do " +
					"not finish what they take.",
				Queries: one(rate("iidy_items_total", "change"), "{{change}}"),
			},
			{
				Title: "Items in a batch", Kind: KindTimeseries, Unit: UnitShort, Width: 8,
				Description: "As sent, on average. Above 10,000 a batch is long: it takes a slot, a connection and a temporary table.",
				Queries:     one(mean("iidy_batch_items", "change"), "{{change}}"),
			},
			{
				Title: "Long batches", Kind: KindTimeseries, Unit: UnitShort, Width: 8, Warn: 2,
				Description: "Under way, per replica, and refused per second because BULK_IN_FLIGHT (2) others were.",
				Queries: []Query{
					{Expr: "iidy_bulk_in_flight{$sel}", Legend: "{{pod}}"},
					{Expr: rate("iidy_bulk_refused_total"), Legend: "refused per second"},
				},
			},
		}},
		{Title: "Claims", Panels: []Panel{
			{
				Title: "Claimed and finished", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Items that workers took, finished (deleted), gave back and kept for longer. Taken should be what is finished, " +
					"plus retries.",
				Queries: one(`sum by (change) (rate(iidy_items_total{$sel,change=~"claimed|deleted|released|extended|abandoned"}[$__rate_interval]))`,
					"{{change}}"),
			},
			{
				Title: "Claims that ran out", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Items handed out again because their lease was over. Failed items are meant to be; beyond that, workers die or " +
					"are slower " +
					"than their lease.",
				Queries: one(rate(`rowlock_lock_conflicts_total{reason="taken_over"}`), "taken over"),
			},
			{
				Title: "Changes under a lost claim", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "Workers that came back too late: others had their items by then, and nothing was changed. Longer leases, or " +
					"smaller claims.",
				Queries: one(rate(`rowlock_lock_conflicts_total{reason="lost"}`), "lost"),
			},
		}},
		groupRow(), lockRow("the rows of the items, in order"), databaseRow(""), processRow(),
	}
	return d
}
