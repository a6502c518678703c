// Package contention measures the cost of a service's lock: how long callers wait for it,
// and how often another holder is in the way. Every service has one kind of lock and
// reports it with the same two metrics, so one dashboard and one set of alerts fit all.
package contention

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Where is the place at which a caller waits for a lock.
type Where string

// The places.
const (
	// InProcess is a wait behind another request of the same replica, without a
	// connection.
	InProcess Where = "process"
	// InDatabase is the wait of one statement for a row that another session holds (for a
	// lease: of one change). A request whose statement gave up may have several.
	InDatabase Where = "database"
	// InLane is the whole wait of a grouped request that went into its key's lane, because
	// its row stayed locked beyond the group's first wait.
	InLane Where = "lane"
)

// Reason is why a lock was not obtained, or was lost.
type Reason string

// The reasons.
const (
	// LockTimeout means that a statement gave up waiting for a row: 55P03 of
	// PostgreSQL, 1205 and 3572 of MySQL.
	LockTimeout Reason = "lock_timeout"
	// QueueTimeout means that a request gave up waiting for another one of its replica.
	QueueTimeout Reason = "queue_timeout"
	// Crowded means that Share refused a request whose lock was known to be held.
	Crowded Reason = "crowded"
	// Held means that another holder has the lease.
	Held Reason = "held"
	// Lost means that a change was refused because its lease or claim had expired or was
	// taken over.
	Lost Reason = "lost"
	// TakenOver means that a lease or claim was taken over after it expired.
	TakenOver Reason = "taken_over"
)

// Settings describes a service's lock and its possible conflicts.
type Settings struct {
	// Lock names what the database locks: a constant, such as "item".
	Lock string
	// Queued says that requests for one lock wait for each other in the process.
	Queued bool
	// Grouped says that requests are grouped, so those for a locked row go into lanes.
	Grouped bool
	// Reasons lists the possible conflicts besides timeouts and Crowded.
	Reasons []Reason
}

// Metrics records the waits and conflicts of one lock. A nil *Metrics records nothing.
type Metrics struct {
	wait      *prometheus.HistogramVec
	database  prometheus.Observer // of wait, looked up once because every statement uses it
	conflicts *prometheus.CounterVec
}

// buckets returns the histogram's bounds in seconds, from an uncontended row, which costs
// at most one round trip, to the longest useful lock timeout. 0.05 is a group's first
// wait (platform/groupcommit), 5 the default of DB_LOCK_TIMEOUT.
func buckets() []float64 {
	return []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// New registers the metrics, with all possible label values at zero: a series that first
// appears with an event hides it from increase(). It panics if the registry has the lock already.
func New(reg prometheus.Registerer, s Settings) *Metrics {
	labels := prometheus.Labels{"lock": s.Lock}
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "rowlock_lock_wait_seconds",
		Help:        "Time from asking for a lock until it was held or given up.",
		ConstLabels: labels,
		Buckets:     buckets(),
	}, []string{"where"})

	conflicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        "rowlock_lock_conflicts_total",
		Help:        "Lock conflicts by reason.",
		ConstLabels: labels,
	}, []string{"reason"})

	reg.MustRegister(wait, conflicts)

	// Start all series that can occur at zero.
	conflicts.WithLabelValues(string(LockTimeout))
	conflicts.WithLabelValues(string(Crowded))
	if s.Queued {
		wait.WithLabelValues(string(InProcess))
		conflicts.WithLabelValues(string(QueueTimeout))
	}
	if s.Grouped {
		wait.WithLabelValues(string(InLane))
	}
	for _, reason := range s.Reasons {
		conflicts.WithLabelValues(string(reason))
	}
	return &Metrics{wait: wait, database: wait.WithLabelValues(string(InDatabase)), conflicts: conflicts}
}

// Waited records how long a caller waited for a lock, whether or not it got it.
func (m *Metrics) Waited(where Where, d time.Duration) {
	switch {
	case m == nil:
	case where == InDatabase:
		m.database.Observe(d.Seconds())
	default:
		m.wait.WithLabelValues(string(where)).Observe(d.Seconds())
	}
}

// Conflict records a conflict.
func (m *Metrics) Conflict(reason Reason) { m.Conflicts(reason, 1) }

// Conflicts records n conflicts.
func (m *Metrics) Conflicts(reason Reason, n int64) {
	if m != nil {
		m.conflicts.WithLabelValues(string(reason)).Add(float64(n))
	}
}
