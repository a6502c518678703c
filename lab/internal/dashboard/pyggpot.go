package dashboard

var _ = register(pyggpot)

func pyggpot() *Dashboard {
	d := ofService("pyggpot", "Pots of coins. A change leases its pot, so slow requests mean a pot that "+
		"many callers change at once, or a holder that died or stalled.")
	conflicts := func(reason string) string {
		return rate(`rowlock_lock_conflicts_total{reason="` + reason + `"}`)
	}
	d.Rows = []Row{
		serviceGlance(
			stat("Aborted", UnitShare,
				"Part of the calls answered `aborted` or `already_exists` (409): other holders had the pot's lease during all "+
					"LOCK_RETRIES. Callers repeat after the RetryInfo.",
				query("("+rate(`http_server_request_duration_seconds_count{status="409"}`)+" or vector(0)) / "+rate(requestCount),
					"409")).limits(0.01, 0.1),
			stat("Taken over", UnitShort,
				"Leases of the last hour that expired before their holder released them: a replica died during a change, or "+
					"stalled for LOCK_TTL.",
				query(`sum(increase(rowlock_lock_conflicts_total{$sel,reason="taken_over"}[1h]))`, "in an hour")).limits(1, 0),
		),
		apiRow(), latencyRow(), groupRow(),
		lockRow("the lease of a pot"),
		{Title: "Leases", Panels: []Panel{
			series("Attempts for one lease", UnitShort,
				"Attempts of a pot's changes to lease it, on average. 1 means that the pot was free; near LOCK_RETRIES (50) "+
					"clients get `aborted`. The replicas' groups of one pot commit one after the other.",
				query("1 + ("+conflicts("held")+" + "+conflicts("lost")+") / "+
					rate(`rowlock_lock_wait_seconds_count{where="database"}`), "tries")).limits(10, 50),
			series("Leases lost", UnitOps,
				"lost: a holder whose lease had expired was refused, and nothing was changed. taken over: another holder got an "+
					"expired lease. Both are zero while replicas are healthy.",
				query(conflicts("lost"), "lost"), query(conflicts("taken_over"), "taken over")),
			series("Lease wait", UnitSeconds,
				"Time in which half of the groups of a pot's changes, and 99 of 100, got its lease. "+
					"LOCK_RETRIES x LOCK_RETRY_WAIT is 1 s.",
				query(quantile(0.5, "rowlock_lock_wait_seconds"), "median"),
				query(quantile(0.99, "rowlock_lock_wait_seconds"), "99th percentile")).limits(1, 0),
		}},
		databaseRow(""), processRow(),
	}
	return d
}
