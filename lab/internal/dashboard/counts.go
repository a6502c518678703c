package dashboard

func counts() *Dashboard {
	d := ofService("counts", "Counters at very high frequency. One statement carries the changes of many callers; what is slow "+
		"here is a hot row, "+
		"a row that a stranger holds, or the database.")
	d.Rows = []Row{
		serviceGlance(
			Panel{
				Title: "Changes per statement", Kind: KindStat, Unit: UnitShort, Width: 4,
				Description: "Mean size of a group: how many callers share one commit.",
				Queries:     one(mean("rowlock_coalesce_batch_size"), "changes"),
			},
			Panel{
				Title: "Locked counters", Kind: KindStat, Unit: UnitShort, Width: 4, Warn: 1,
				Description: "Counters whose row somebody else holds, summed over the replicas. Their callers wait in a lane of their own; all " +
					"others go on.",
				Queries: one("sum(rowlock_coalesce_slow_keys{$sel})", "counters"),
			},
		),
		apiRow(), groupRow(), lockRow("the row of a counter"), databaseRow(""), processRow(),
	}
	return d
}
