package sqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one pool. Each carries the label pool, the Name of its Settings.
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

func newMetrics(reg prometheus.Registerer, pool string, kind Engine, stats func() sql.DBStats) (*metrics, error) {
	labels := prometheus.Labels{"pool": pool}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, []string{label})
	}
	m := &metrics{
		retries: counter("rowlock_retries_total",
			"Transactions and statements run again after a deadlock, a serialization failure or a migration, unapplied.", "sqlstate"),
		unknown: counter("rowlock_outcome_unknown_total",
			"Changes of which it is not known whether they were made.", "operation"),
		resolved: counter("rowlock_outcome_resolved_total",
			"Lost answers to COMMIT that were looked up afterwards.", "result"),
	}
	// A counter that is absent until its first event hides that event from rate().
	for _, state := range append(repeatedStates(kind), stateOther) {
		m.retries.WithLabelValues(state)
	}
	m.unknown.WithLabelValues(operationTx)
	m.unknown.WithLabelValues(operationOnce)
	for _, result := range []xactStatus{xactCommitted, xactAborted, xactUnknown} {
		m.resolved.WithLabelValues(string(result))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.retries, m.unknown, m.resolved, newPoolCollector(labels, stats)} {
		if err := reg.Register(c); err != nil {
			if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
				return nil, fmt.Errorf("a second pool named %q: give it a name of its own", pool)
			}
			return nil, fmt.Errorf("register the metrics of pool %q: %w", pool, err)
		}
	}
	return m, nil
}

// stateOther is the label of every SQLSTATE that repeatedStates does not know.
const stateOther = "other"

// repeatedStates are the SQLSTATEs after which something is run again: a deadlock, a
// serialization failure, and on PostgreSQL a prepared statement that a migration has
// overtaken. MySQL has 40001 for its deadlocks and HY000 for MariaDB's 1020.
func repeatedStates(kind Engine) []string {
	if kind == MySQL {
		return []string{stateSerializationFailure, stateGeneralError}
	}
	return []string{stateSerializationFailure, stateDeadlockDetected, stateFeatureNotSupported, stateInvalidStatementName}
}

// retried counts a run that follows one that ended so. A server cannot invent labels.
func (m *metrics) retried(kind Engine, state string) {
	if !slices.Contains(repeatedStates(kind), state) {
		state = stateOther
	}
	m.retries.WithLabelValues(state).Inc()
}

// poolCollector reads the pool's figures when it is scraped.
type poolCollector struct {
	stats   func() sql.DBStats
	figures []poolFigure
}

type poolFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(sql.DBStats) float64
}

func newPoolCollector(labels prometheus.Labels, stats func() sql.DBStats) *poolCollector {
	figure := func(name, help string, kind prometheus.ValueType, value func(sql.DBStats) float64) poolFigure {
		return poolFigure{prometheus.NewDesc("rowlock_db_"+name, help, nil, labels), kind, value}
	}
	return &poolCollector{stats: stats, figures: []poolFigure{
		figure("connections_max", "Most connections the pool may open.", prometheus.GaugeValue,
			func(s sql.DBStats) float64 { return float64(s.MaxOpenConnections) }),
		figure("connections_open", "Connections that are open, in use or idle.", prometheus.GaugeValue,
			func(s sql.DBStats) float64 { return float64(s.OpenConnections) }),
		figure("connections_in_use", "Connections in use.", prometheus.GaugeValue,
			func(s sql.DBStats) float64 { return float64(s.InUse) }),
		figure("waits_total", "Calls that had to wait for a connection.", prometheus.CounterValue,
			func(s sql.DBStats) float64 { return float64(s.WaitCount) }),
		figure("wait_seconds_total", "Time that calls waited for a connection.", prometheus.CounterValue,
			func(s sql.DBStats) float64 { return s.WaitDuration.Seconds() }),
	}}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.stats()
	for _, f := range c.figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}
