package postgres

import (
	"embed"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
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

// Options are the bounds of a store. All but Retries must be positive.
type Options struct {
	// TTL is how long a lease lasts.
	TTL time.Duration
	// Retries is how often a change tries again to lease its pot.
	Retries int
	// RetryWait is how long it waits before each of these tries, half more or less.
	RetryWait time.Duration
	// QueueWait is how long a change waits for other changes of its process.
	QueueWait time.Duration
	// Changes is how many changes may use a connection at once.
	Changes int
	// Contention records waits and conflicts; it may be nil.
	Contention *contention.Metrics
	// Share bounds the changes that wait for leased pots; nil bounds nothing.
	Share *contention.Share
}

// Store is a pot.Repository on PostgreSQL.
type Store struct {
	db      *sqldb.DB
	options Options
	lock    *contention.Metrics
	queues  *bulkhead.Bulkhead[pot.ID] // one change of a pot at a time
	slots   *bulkhead.Bulkhead[pot.ID] // changes that may use a connection
}

var _ pot.Repository = (*Store)(nil)

// pots is how many pots may have a queue at once: more than there are requests at once.
const pots = 1 << 20

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options) *Store {
	return &Store{
		db: db, options: o, lock: o.Contention,
		queues: bulkhead.New[pot.ID](pots, o.Contention, o.Share), slots: bulkhead.New[pot.ID](o.Changes, nil, nil),
	}
}
