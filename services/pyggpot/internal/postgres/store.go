package postgres

import (
	"context"
	"embed"
	"errors"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Schema: "pyggpot"}
}

// Session returns the server's parameters for which the statements are written. A group's arrays are short at first and
// long under load: the statements are planned once, for any length, and find pots and coins by their indexes.
func Session() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Options are the bounds of a store. All but Retries must be positive.
type Options struct {
	// TTL is how long a lease lasts.
	TTL time.Duration
	// Retries is how often a change tries again to lease its pot.
	Retries int
	// RetryWait is how long it waits before each of these tries, half more or less.
	RetryWait time.Duration
	// Limits are those of the group commit; InFlight groups run at once.
	Limits coalesce.Limits
}

// Store is a pot.Repository on PostgreSQL.
type Store struct {
	db      *sqldb.DB
	options Options
	lock    *contention.Metrics
	share   *contention.Share
	history history

	groups    lane // of up to maxPots pots, which skip the pots that are held
	contended lane // of one pot that a group found held

	mu     sync.Mutex
	queues map[pot.ID]*queue // of the pots that have callers
}

// lane gathers the queues of different pots into groups.
type lane = *coalesce.Coalescer[pot.ID, *queue, struct{}]

var _ pot.Repository = (*Store)(nil)

const (
	// maxPots is how many pots a group leases and changes at most.
	maxPots = 32
	// statements is how many of a group's may take all of the statement timeout: the lease, the read, the change, and
	// what follows a failure.
	statements = 4
)

// ReservedConns is how many connections of the pool are left when COALESCE_IN_FLIGHT groups run: one for contended
// pots, one for reads and new pots.
const ReservedConns = 2

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options) (*Store, error) {
	s := &Store{
		db: db, options: o, lock: o.Limits.Contention, share: o.Limits.Share, queues: make(map[pot.ID]*queue),
	}
	key := func(q *queue) pot.ID { return q.id }
	var groupsErr, contendedErr error
	s.groups, groupsErr = coalesce.New(coalesce.Config[pot.ID, *queue, struct{}]{
		Name: "pyggpot_change", Key: key, Run: s.runGroup, MaxItems: maxPots, Statements: statements, Limits: o.Limits,
	})

	// A statement that waits for a pot's row holds no other.
	one := o.Limits
	one.InFlight = 1
	s.contended, contendedErr = coalesce.New(coalesce.Config[pot.ID, *queue, struct{}]{
		Name: "pyggpot_contended", Key: key, Run: s.runContended, MaxItems: 1, Statements: statements, Limits: one,
		BriefWait: min(o.RetryWait/2, o.Limits.LockTimeout), // so that a locked row leaves half of the lane to others
	})

	return s, errors.Join(groupsErr, contendedErr)
}

// Close waits until every change in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.groups.Close(ctx), s.contended.Close(ctx))
}
