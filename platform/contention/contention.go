// Package contention measures the cost of a service's lock: how long callers wait for
// it, and how often another holder is in the way. Every service has one kind of lock
// and reports it by the same two metrics, so that one dashboard and one set of alerts
// serves them all.
package contention

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is where a lock is waited for.
type Place string

// The places.
const (
	// InProcess is a wait behind another request of the same replica, without a
	// connection.
	InProcess Place = "process"
	// InDatabase is a wait for a row or lease that another replica or client holds. It is
	// one statement's wait (a lease's: one change's); a request whose statement gave up
	// has several.
	InDatabase Place = "database"
	// InLane is the whole wait of a grouped request whose row was locked for longer than
	// the group's first wait, so that it went into a lane of its own.
	InLane Place = "lane"
)

// Reason is why a lock was not obtained, or was lost.
type Reason string

// The reasons.
const (
	// LockTimeout is a statement that gave up waiting for a row: 55P03 of
	// PostgreSQL, 1205 and 3572 of MySQL.
	LockTimeout Reason = "lock_timeout"
	// QueueTimeout is a request that gave up waiting for another one of its replica.
	QueueTimeout Reason = "queue_timeout"
	// Crowded is a request that was refused at once because its lock was known to be held and Share had no free place.
	Crowded Reason = "crowded"
	// Held is a lease that was not taken because another holder has it.
	Held Reason = "held"
	// Lost is a change that its own fence refused: its lease or claim had expired
	// or was taken over.
	Lost Reason = "lost"
	// TakenOver is a lease or claim that was taken over after its holder let it expire.
	TakenOver Reason = "taken_over"
)

// Settings describe a service's lock and the conflicts that can occur.
type Settings struct {
	// Lock names what the database locks: a constant, such as "item".
	Lock string
	// Queued says that requests for one lock wait for each other in the process.
	Queued bool
	// Grouped says that requests are grouped, so that those whose row is locked go into
	// lanes.
	Grouped bool
	// Reasons are those that can occur beside the timeouts.
	Reasons []Reason
}

// Metrics records the waits and conflicts of one lock. A nil one records nothing.
type Metrics struct {
	wait      *prometheus.HistogramVec
	database  prometheus.Observer // of wait, looked up once: every statement records it
	conflicts *prometheus.CounterVec
}

// buckets returns the histogram's bounds in seconds, from an uncontended row, which
// takes one round trip at most, to the longest useful lock timeout. 0.05 is a group's
// first wait (platform/groupcommit), 5 the default of DB_LOCK_TIMEOUT.
func buckets() []float64 {
	return []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// New registers the metrics, with every label value that can occur at zero: a counter
// that is absent until its first event hides that event from increase().
func New(reg prometheus.Registerer, s Settings) (*Metrics, error) {
	if s.Lock == "" {
		return nil, errors.New("contention: the lock has no name")
	}
	labels := prometheus.Labels{"lock": s.Lock}
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "rowlock_lock_wait_seconds",
		Help:        "Time from asking for a lock until it was held or given up.",
		ConstLabels: labels,
		Buckets:     buckets(),
	}, []string{"where"})
	conflicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        "rowlock_lock_conflicts_total",
		Help:        "Times that another holder had the lock, or had taken it over, by what followed.",
		ConstLabels: labels,
	}, []string{"reason"})
	for _, c := range []prometheus.Collector{wait, conflicts} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the lock %q: %w", s.Lock, err)
		}
	}
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
	return &Metrics{wait: wait, database: wait.WithLabelValues(string(InDatabase)), conflicts: conflicts}, nil
}

// Waited records how long a caller waited for a lock, until it got it or gave up.
func (m *Metrics) Waited(where Place, d time.Duration) {
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
