package dashboard

var _ = register(counts)

func counts() *Dashboard {
	d := ofService("counts", "Counters at very high frequency. One statement carries the changes of many "+
		"callers; slow requests mean a hot row, a row locked by another transaction, or a slow database.")
	d.Rows = []Row{
		serviceGlance(
			stat("Changes per statement", UnitShort,
				"Mean size of a group: how many callers share one commit.",
				query(mean("rowlock_coalesce_batch_size"), "changes")),
			stat("Locked counters", UnitShort,
				"Counters whose row is locked by another transaction, summed over the replicas. Only their callers wait, in a "+
					"lane of their own.",
				query("sum(rowlock_coalesce_slow_keys{$sel})", "counters")).limits(1, 0),
		),
		apiRow(), groupRow(), lockRow("the row of a counter"), databaseRow(""), processRow(),
	}
	return d
}
