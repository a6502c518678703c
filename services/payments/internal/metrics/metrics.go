// Package metrics counts payments for Prometheus.
package metrics

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Metrics counts what a replica does. Its methods, Replays and Conflicts are for payment.Service.
type Metrics struct {
	Replays, Conflicts prometheus.Counter

	payments  *prometheus.CounterVec
	deleted   prometheus.Counter
	ledger    prometheus.Counter
	unsettled prometheus.Gauge
	overdue   prometheus.Counter
	limit     time.Duration

	mu     sync.Mutex
	opened map[*time.Time]bool // when each open claim was made
}

// New registers the metrics. limit is the lifetime of a claim.
func New(reg prometheus.Registerer, limit time.Duration) *Metrics {
	m := &Metrics{
		payments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "payments_total", Help: "Stored payments.",
		}, []string{"status"}),
		Replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payments_replays_total", Help: "Stored answers that were returned to a repeated request.",
		}),
		Conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payments_conflicts_total", Help: "Requests refused because their key belongs to another request.",
		}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payments_cleanup_deleted_total", Help: "Expired idempotency records that this replica deleted.",
		}),
		ledger: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payments_ledger_deleted_total", Help: "Settled entries of the ledger that this replica deleted.",
		}),
		unsettled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "payments_unsettled_charges",
			Help: "Payments of all replicas that were given up, while it is not known whether the card was charged.",
		}),
		overdue: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "payments_claims_overdue_total",
			Help: "Claims of this replica that exceeded their lifetime; another request may have taken them over.",
		}),
		limit:  limit,
		opened: make(map[*time.Time]bool),
	}

	// A series that begins with its first event hides that event from rate().
	for _, status := range []payment.Status{payment.Succeeded, payment.Declined} {
		m.payments.WithLabelValues(string(status))
	}
	m.unsettled.Set(math.NaN())

	reg.MustRegister(
		m.payments, m.Replays, m.Conflicts, m.deleted, m.ledger, m.unsettled, m.overdue,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "payments_claims_open", Help: "Payments that this replica has claimed but not settled.",
		}, func() float64 { n, _ := m.open(time.Now()); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "payments_claim_oldest_seconds",
			Help: "Age of the oldest open claim of this replica; 0 without one.",
		}, func() float64 { _, age := m.open(time.Now()); return age.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "payments_claim_limit_seconds",
			Help: "Lifetime of a claim: PROCESSOR_TIMEOUT plus one second.",
		}, limit.Seconds),
	)
	return m
}

// Settled counts a payment that was stored.
func (m *Metrics) Settled(status payment.Status) { m.payments.WithLabelValues(string(status)).Inc() }

// Claimed counts an open claim until ended is called.
func (m *Metrics) Claimed() (ended func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	began := time.Now()
	m.opened[&began] = true

	return func() {
		if time.Since(began) > m.limit {
			m.overdue.Inc() // scrapes of the open claims would miss most
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.opened, &began)
	}
}

// open returns the number of open claims and the age of the oldest.
func (m *Metrics) open(now time.Time) (n int, oldest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for began := range m.opened {
		oldest = max(oldest, now.Sub(*began))
	}
	return len(m.opened), oldest
}

// Deleted counts n records that a cleanup removed.
func (m *Metrics) Deleted(n int) { m.deleted.Add(float64(n)) }

// LedgerDeleted counts n entries of the ledger that a cleanup removed.
func (m *Metrics) LedgerDeleted(n int) { m.ledger.Add(float64(n)) }

// Unsettled sets the number of payments whose charge is unknown, or NaN if err says that they could not be counted. An
// old figure, or the zero at the start, would look like an answer.
func (m *Metrics) Unsettled(n int, err error) {
	unsettled := float64(n)
	if err != nil {
		unsettled = math.NaN()
	}
	m.unsettled.Set(unsettled)
}
