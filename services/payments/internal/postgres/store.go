package postgres

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
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

// Session returns the session settings that the statements are written for: each is planned once for groups of any
// size, and never reads a whole table, which its plan may outlive the smallness of.
func Session() map[string]string {
	return map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
}

// Observer measures claims.
type Observer interface {
	// Opened is called when this replica has claimed a key; the returned function is
	// called when the claim has ended.
	Opened() (closed func())
}

// Options configure a store. All but Gate are required, and all bounds must be positive.
type Options struct {
	coalesce.Limits

	// Gate lets claims, charges and settlements take turns; nil: they do not.
	Gate *coalesce.Gate
	// Encode returns the receipt that is stored with a payment.
	Encode func(payment.Payment) (payment.Receipt, error)
	// LockWait is how long a request waits for its key.
	LockWait time.Duration
}

// Store is a payment.Repository on PostgreSQL.
type Store struct {
	db       *sqldb.DB
	options  Options
	observer Observer
	keys     *bulkhead.Bulkhead[payment.Key]

	looks   *coalesce.Coalescer[payment.Key, payment.Key, state]
	claims  *coalesce.Coalescer[payment.Key, bid, state]
	changes *coalesce.Coalescer[string, change, state] // by their records
	settles *coalesce.Coalescer[string, settlement, settled]
}

var _ payment.Repository = (*Store)(nil)

// New returns a store on db, whose schema must have been migrated.
func New(db *sqldb.DB, o Options, observer Observer) (*Store, error) {
	s := &Store{
		db: db, options: o, observer: observer, keys: bulkhead.New[payment.Key](o.Queue, o.Contention, o.Share),
	}
	forKey, charged := o.Limits, o.Limits
	forKey.LockTimeout = o.LockWait // a claim waits for its key, and so does a takeover
	charged.Share = nil             // a payment that was charged is not refused for a crowd

	var looksErr, claimsErr, changesErr, settlesErr error
	s.looks, looksErr = coalesce.New(coalesce.Config[payment.Key, payment.Key, state]{
		Limits: o.Limits, Name: "payments_look", Key: func(k payment.Key) payment.Key { return k }, Run: s.runLooks,
	})
	s.claims, claimsErr = coalesce.New(coalesce.Config[payment.Key, bid, state]{
		Limits: forKey, Name: "payments_claim", Key: func(c bid) payment.Key { return c.Key }, Run: s.runClaims,
		Size: func(c bid) int { return claimBytes + len(c.Key.Value) + 2*len(c.Key.Caller) }, Gate: o.Gate,
	})
	s.changes, changesErr = coalesce.New(coalesce.Config[string, change, state]{
		Limits: forKey, Name: "payments_change", Key: func(c change) string { return c.held.Record }, Run: s.runChanges,
	})
	s.settles, settlesErr = coalesce.New(coalesce.Config[string, settlement, settled]{
		Limits: charged, Name: "payments_settle", Key: func(c settlement) string { return c.held.Record },
		Run: s.runSettles, Size: func(c settlement) int { return settleBytes + len(c.held.Record) + len(c.receipt.Data) },
		Gate: o.Gate,
	})

	return s, errors.Join(looksErr, claimsErr, changesErr, settlesErr)
}

// Close waits until every request in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.looks.Close(ctx), s.claims.Close(ctx), s.changes.Close(ctx), s.settles.Close(ctx))
}

// do lets a request join the next group. A request whose connection was lost is asked once more, because each of them
// recognises that it was applied. A client that leaves cancels nothing.
func do[K comparable, Q, R any](ctx context.Context, c *coalesce.Coalescer[K, Q, R], q Q) (R, error) {
	bounded := context.WithoutCancel(ctx) // by the statements' own bounds
	r, err := c.Do(bounded, q)
	if e, ok := errors.AsType[*sqldb.Error](err); ok && e.Reason == sqldb.Connection && ctx.Err() == nil {
		return c.Do(bounded, q)
	}
	return r, err
}

// once sends one autocommit statement and returns its rows.
func once[R any](ctx context.Context, db *sqldb.DB, statement string, args ...any) (rows []R, err error) {
	err = db.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		rows = nil // the statement may be run again
		return conn.SelectContext(ctx, &rows, statement, args...)
	})
	return rows, err
}
