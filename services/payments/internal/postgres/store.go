package postgres

import (
	"embed"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	return migrate.Source{FS: migrations, Schema: "payments"}
}

// Observer measures payment transactions.
type Observer interface {
	// Opened is called when a payment transaction begins; the returned function is
	// called when it has ended.
	Opened() (closed func())
}

// Options configure a store. All but Contention and Share are required, and all bounds must be
// positive.
type Options struct {
	// Encode returns the receipt that is stored with a payment.
	Encode func(payment.Payment) (payment.Receipt, error)
	// LockWait is how long a request waits for its key.
	LockWait time.Duration
	// Transactions is how many payments may be in flight at once.
	Transactions int
	// IdleTimeout is how long the server lets a payment transaction wait for the
	// processor before it ends it.
	IdleTimeout time.Duration
	// Contention counts the waits for keys; it may be nil.
	Contention *contention.Metrics
	// Share bounds the requests that wait behind one whose key another session holds, or
	// whose charge takes long; nil bounds nothing.
	Share *contention.Share
}

// Store is a payment.Repository on PostgreSQL.
type Store struct {
	db       *sqldb.DB
	options  Options
	observer Observer
	keys     *bulkhead.Bulkhead[payment.Key]
}

var _ payment.Repository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options, observer Observer) *Store {
	keys := bulkhead.New[payment.Key](o.Transactions, o.Contention, o.Share)
	return &Store{db: db, options: o, observer: observer, keys: keys}
}
