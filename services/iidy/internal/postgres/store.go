package postgres

import (
	"context"
	"embed"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Schema: "iidy", Distribution: distribution()}
}

// Session returns the session settings that the statements are written for. Each
// connection plans a statement once, whatever its arguments, because planning costs
// as much as running it for a few items. Such a plan outlives the size that the
// table had, so it must not read the whole table, although that is best for a short
// list. Compilation is off because the planner would then expect such costs that it
// compiles for longer than a batch takes.
func Session() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Options bounds a store.
type Options struct {
	coalesce.Limits

	Metrics      *metrics.Metrics
	MaxOpenConns int           // of the pool
	BulkTimeout  time.Duration // the deadline of a long batch
	BulkInFlight int           // concurrent long batches
}

// waitingShare is the part of the replica's requests that may wait for the memory of a large answer, as a divisor.
const waitingShare = 4

// GroupConns is the number of connections that group commit uses with InFlight 1: one
// each for adds, increments, deletes and reads.
const GroupConns = 4

// Store implements attempt.Repository on PostgreSQL. It has no access to the database
// but through its coalescers, its queue, and reads.
type Store struct {
	coalescers *coalescers
	queue      *queue
	claims     claimStatements
	reads      reader
	answers    *budget
	freeFrom   hints[position]  // the first free item behind many claimed ones
	allNew     hints[time.Time] // from when on batches are expected to have only new items
	contention *contention.Metrics
	metrics    *metrics.Metrics
}

var _ attempt.Repository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options) (*Store, error) {
	c, err := newCoalescers(db, o)
	q := newQueue(db, o)
	// Pages have half of the pool, claims have the queue's connections: each keeps one for small answers.
	running := min(o.MaxOpenConns/2, q.conns) - 1
	return &Store{
		coalescers: c, queue: q, claims: claimStatementsOf(db), reads: db,
		answers:    newBudget(o.Queue/waitingShare, running, o.Metrics),
		contention: o.Contention, metrics: o.Metrics,
	}, err
}

// Close waits until every call in flight has been answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error { return s.coalescers.close(ctx) }
