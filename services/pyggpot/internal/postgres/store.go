package postgres

import (
	"context"
	"embed"
	"time"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	const most = "SELECT, INSERT, UPDATE"
	return migrate.Source{
		FS: migrations, Schema: "pyggpot",
		Rights: []string{
			"USAGE ON SCHEMA pyggpot", most + " ON pyggpot.pot", most + " ON pyggpot.coin", most + ", DELETE ON pyggpot.slots",
		},
	}
}

// Options are the bounds of leases. All but Retries must be positive.
type Options struct {
	// TTL is the lifetime of a lease.
	TTL time.Duration
	// Retries limits the further tries of a change to lease its pot, within DB_LOCK_TIMEOUT.
	Retries int
	// RetryWait is the pause before each of these tries, half more or less.
	RetryWait time.Duration
}

// Store is a pot.Repository on PostgreSQL.
type Store struct {
	db      *sqldb.DB
	slots   *groupcommit.Slots
	options Options
	number  string // of its leases
	lock    *contention.Metrics
	changes *groupcommit.Committer[pot.ID, pot.Change, pot.Answer]
}

var _ pot.Repository = (*Store)(nil)

// ReservedConns is the number of connections that COALESCE_IN_FLIGHT must leave in the pool: one for pots that others
// hold, one for reads and new pots.
const ReservedConns = 2

// maxPots limits the pots that a group leases and changes: a replica that dies leaves their leases behind.
const maxPots = 32

// New returns a store on the database of limits, whose schema must have been migrated.
func New(limits groupcommit.Limits, o Options) *Store {
	s := &Store{db: limits.DB, slots: limits.Slots, options: o, number: uuid.NewString(), lock: limits.Contention}
	s.changes = groupcommit.New(groupcommit.Config[pot.ID, pot.Change, pot.Answer]{
		Limits:  limits,
		Name:    "pyggpot_change",
		Key:     func(c pot.Change) pot.ID { return c.Pot },
		Send:    s.sendGroup,
		MaxKeys: maxPots,
		Lease: &groupcommit.Lease[pot.Change]{
			Take: s.take, Release: s.release, RetryWait: o.RetryWait, Retries: o.Retries,
		},
	})
	return s
}

// Close waits until every change in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error { return s.changes.Close(ctx) }
