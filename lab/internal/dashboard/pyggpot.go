package dashboard

func pyggpot() *Dashboard {
	d := ofService("pyggpot", "Pots of coins. A change leases its pot, so what is slow here is a pot that many change at once, "+
		"or a holder that died "+
		"or stalled.")
	conflicts := func(reason string) string {
		return rate(`rowlock_lock_conflicts_total{reason="` + reason + `"}`)
	}
	d.Rows = []Row{
		serviceGlance(
			Panel{
				Title: "Aborted", Kind: KindStat, Unit: UnitShare, Width: 4, Warn: 0.01, Bad: 0.1,
				Description: "Part of the calls answered `aborted` or `already_exists` (409): the pot was leased to others for all LOCK_RETRIES. " +
					"Callers repeat after the RetryInfo.",
				Queries: one("("+rate(`http_server_request_duration_seconds_count{status="409"}`)+" or vector(0)) / "+
					rate("http_server_request_duration_seconds_count"), "409"),
			},
			Panel{
				Title: "Taken over", Kind: KindStat, Unit: UnitShort, Width: 4, Warn: 1,
				Description: "Leases of the last hour that had run out in their holder's hands: a replica died in the middle of a change, or " +
					"stalled for LOCK_TTL.",
				Queries: one(`sum(increase(rowlock_lock_conflicts_total{$sel,reason="taken_over"}[1h]))`, "in an hour"),
			},
		),
		apiRow(),
		lockRow("the lease of a pot"),
		{Title: "Leases", Panels: []Panel{
			{
				Title: "Tries for one change", Kind: KindTimeseries, Unit: UnitShort, Width: 8, Warn: 10, Bad: 50,
				Description: "Times that a change asked for its pot's lease, on average. 1 is free at once; near LOCK_RETRIES (50) clients get " +
					"`aborted`. " +
					"One pot is as fast as its commits, one after the other.",
				Queries: one("1 + ("+conflicts("held")+" + "+conflicts("lost")+") / "+
					rate(`rowlock_lock_wait_seconds_count{where="database"}`), "tries"),
			},
			{
				Title: "Leases lost", Kind: KindTimeseries, Unit: UnitOps, Width: 8,
				Description: "lost: a holder came back too late and was refused, nothing changed. taken over: somebody got a lease that had run out. " +
					"Both are zero while replicas are well.",
				Queries: []Query{
					{Expr: conflicts("lost"), Legend: "lost"},
					{Expr: conflicts("taken_over"), Legend: "taken over"},
				},
			},
			{
				Title: "Lease wait", Kind: KindTimeseries, Unit: UnitSeconds, Width: 8, Warn: 1,
				Description: "Half of the changes, and 99 of 100, had their lease within this time. LOCK_RETRIES x LOCK_RETRY_WAIT is 1 s.",
				Queries: []Query{
					{Expr: quantile(0.5, "rowlock_lock_wait_seconds"), Legend: "half"},
					{Expr: quantile(0.99, "rowlock_lock_wait_seconds"), Legend: "99 of 100"},
				},
			},
		}},
		databaseRow(""), processRow(),
	}
	return d
}
