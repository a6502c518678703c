package postgres

import (
	"embed"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Dir: "migrations", Schema: "payments"}
}

// Observer is told what payments wait for and how long they take.
type Observer interface {
	// Waited is called when a request had to wait for its key: for another
	// request of this replica, or for the row that another replica holds.
	Waited(where Place, d time.Duration)
	// Opened is called when a payment transaction begins, and the function that it
	// returns when it has ended.
	Opened() (closed func())
}

// Place is where a request waits for its key.
type Place string

// The places.
const (
	InProcess  Place = "process"
	InDatabase Place = "database"
)

// Options are the bounds of a store.
type Options struct {
	// LockWait is how long a request waits for its key.
	LockWait time.Duration
	// Transactions is how many payments may be under way at once.
	Transactions int
	// IdleTimeout is how long the server lets a payment transaction wait for the
	// processor before it ends it.
	IdleTimeout time.Duration
}

// Store is a payment.Repository on PostgreSQL.
type Store struct {
	db       *sqldb.DB
	options  Options
	observer Observer
	bulkhead *bulkhead.Bulkhead[payment.Key]
}

var _ payment.Repository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated. All options
// must be positive.
func New(db *sqldb.DB, o Options, observer Observer) *Store {
	return &Store{db: db, options: o, observer: observer, bulkhead: bulkhead.New[payment.Key](o.Transactions)}
}
