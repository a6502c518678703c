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
		apiRow(), latencyRow(),
		{Title: "Repeats", Panels: []Panel{
			series("Replayed answers", UnitOps,
				"Repeated requests that got the stored answer. Many: callers time out before they are answered. other request: "+
					"one key for two different requests, a caller's bug.",
				query(rate("counts_replays_total"), "replayed"), query(rate("counts_conflicts_total"), "other request")),
			series("Lost answers", UnitShort,
				"Groups in each interval whose answer from the database got lost, by what their slot says. "+
					"committed: answered as applied. aborted: not applied, and sent again. unknown: 500 OUTCOME_UNKNOWN, as the "+
					"database stayed away.",
				query("sum by (result) (increase(rowlock_outcome_resolved_total{$sel}[$__rate_interval]))", "{{result}}")),
		}},
		groupRow(), lockRow("the row of a counter"), databaseRow(""), processRow(),
	}
	return d
}
