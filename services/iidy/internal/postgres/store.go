package postgres

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/metrics"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Table is the table of all lists. The slots are on its shards.
const Table = "iidy.lists"

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	const all = "SELECT, INSERT, UPDATE, DELETE ON "
	return migrate.Source{
		FS: migrations, Schema: "iidy", Distribution: distribution(),
		Rights: []string{"USAGE ON SCHEMA iidy", all + Table, all + "iidy.slots", "TEMPORARY ON DATABASE"},
	}
}

// Options configures a store.
type Options struct {
	groupcommit.Limits

	Metrics      *metrics.Metrics
	MaxOpenConns int           // of the pool
	BulkTimeout  time.Duration // the deadline of a long batch
	BulkInFlight int           // concurrent long batches
}

// GroupConns is the number of connections that group commit uses if InFlight is 1: one each for adds, increments,
// deletes and reads.
const GroupConns = 4

// ungrouped returns the number of connections for changes outside of groups.
func (o Options) ungrouped() int { return max(o.MaxOpenConns-GroupConns*max(o.InFlight, 1), 1) }

// Store implements attempt.Repository on PostgreSQL. It uses the database only through its committers, its queue, and
// reads.
type Store struct {
	db         *sqldb.DB
	text       texts
	gets       *committer
	changes    [attempt.Delete + 1]*committer // by attempt.Change
	queue      *queue
	answers    *budget
	freeFrom   hints[position]  // the first free item after many claimed ones
	allNew     hints[time.Time] // when batches are again expected to have only new items
	contention *contention.Metrics
	metrics    *metrics.Metrics
}

var _ attempt.Repository = (*Store)(nil)

// New returns a store on the database of o, whose schema must be migrated.
func New(o Options) *Store {
	// Groups for shards use half of the pool, or more if COALESCE_IN_FLIGHT asks for it.
	o.Permits = max(2*o.InFlight, o.MaxOpenConns/(2*GroupConns))
	// Pages have half of the pool, claims have the queue's connections. Both keep one for small answers.
	large := min(o.MaxOpenConns/2, o.ungrouped()) - 1

	s := &Store{
		db: o.DB, text: textsOf(o.DB.Cluster() == sqldb.ClusterCitus), queue: newQueue(o),
		answers: newBudget(o.Queue, large, o.Metrics), contention: o.Contention, metrics: o.Metrics,
	}
	for _, change := range attempt.Changes() {
		sends := requests{Send: s.text.send[change], Transaction: change == attempt.Add && s.text.distributed}
		s.changes[change] = newCommitter("iidy_"+change.String(), o.Limits, sends)
	}

	reads := o.Limits
	reads.Contention = nil // they wait for no lock
	s.gets = newCommitter("iidy_get", reads, requests{Repeat: s.get})
	return s
}

// Close waits until every request in flight has been answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	err := s.gets.Close(ctx)
	for _, change := range attempt.Changes() {
		err = errors.Join(err, s.changes[change].Close(ctx))
	}
	return err
}
