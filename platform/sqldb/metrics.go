package sqldb

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one pool, labelled with the Name of its Settings.
type metrics struct {
	retries  *prometheus.CounterVec
	unknown  *prometheus.CounterVec
	resolved *prometheus.CounterVec
}

// The values of the label operation.
const (
	operationTx   = "transaction"
	operationOnce = "statement"
)

// newMetrics registers the metrics with reg, which may be nil. It panics if another pool has the name.
func newMetrics(reg prometheus.Registerer, pool string, kind Engine, stats func() sql.DBStats) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}

	m := &metrics{
		retries: counter("rowlock_retries_total",
			"Transactions and statements run again after a deadlock, a serialization failure or a migration, unapplied.",
			"sqlstate"),
		unknown: counter("rowlock_outcome_unknown_total",
			"Changes of which it is not known whether they were made.", "operation"),
		resolved: counter("rowlock_outcome_resolved_total",
			"Lost answers to COMMIT and to statements that were looked up afterwards.", "result"),
	}

	// A counter that is absent until its first event hides that event from rate().
	for _, state := range repeatedStates(kind) {
		m.retries.WithLabelValues(state)
	}
	m.unknown.WithLabelValues(operationTx)
	m.unknown.WithLabelValues(operationOnce)
	for _, result := range []string{resultCommitted, resultAborted, resultUnknown} {
		m.resolved.WithLabelValues(result)
	}

	reg = prometheus.WrapRegistererWith(prometheus.Labels{"pool": pool}, reg)
	reg.MustRegister(append(poolCollectors(stats), m.retries, m.unknown, m.resolved)...)
	return m
}

// repeatedStates returns the SQLSTATEs after which a call is repeated: a deadlock, a
// serialization failure, and on PostgreSQL a prepared statement made invalid by a
// migration. MySQL uses 40001 for its deadlocks and HY000 for MariaDB's 1020.
func repeatedStates(kind Engine) []string {
	if kind == MySQL {
		return []string{stateSerializationFailure, stateGeneralError}
	}
	return []string{
		stateSerializationFailure, stateDeadlockDetected, stateFeatureNotSupported, stateInvalidStatementName,
	}
}

// poolCollectors returns the metrics of the pool's statistics, read at each scrape.
func poolCollectors(stats func() sql.DBStats) []prometheus.Collector {
	gauge := func(name, help string, value func(sql.DBStats) int) prometheus.Collector {
		opts := prometheus.GaugeOpts{Name: "rowlock_db_" + name, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 { return float64(value(stats())) })
	}
	counter := func(name, help string, value func(sql.DBStats) float64) prometheus.Collector {
		opts := prometheus.CounterOpts{Name: "rowlock_db_" + name, Help: help}
		return prometheus.NewCounterFunc(opts, func() float64 { return value(stats()) })
	}

	return []prometheus.Collector{
		gauge("connections_max", "Most connections the pool may open.",
			func(s sql.DBStats) int { return s.MaxOpenConnections }),
		gauge("connections_open", "Connections that are open, in use or idle.",
			func(s sql.DBStats) int { return s.OpenConnections }),
		gauge("connections_in_use", "Connections in use.",
			func(s sql.DBStats) int { return s.InUse }),
		counter("waits_total", "Calls that had to wait for a connection, and reads that left it to changes.",
			func(s sql.DBStats) float64 { return float64(s.WaitCount) }),
		counter("wait_seconds_total", "Time that calls waited for a connection.",
			func(s sql.DBStats) float64 { return s.WaitDuration.Seconds() }),
	}
}
