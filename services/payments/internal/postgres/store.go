package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the schema of all tables.
const Schema = "payments"

// Migrations returns the schema's migrations.
func Migrations() migrate.Source {
	const all = "SELECT, INSERT, UPDATE, DELETE ON payments."
	return migrate.Source{
		FS: migrations, Schema: Schema,
		Rights: []string{
			"USAGE ON SCHEMA payments", all + "idempotency_records", "SELECT, INSERT ON payments.payments",
			all + "processor_charges",
		},
	}
}

// Options configure a store. All limits must be positive.
type Options struct {
	groupcommit.Limits

	// Encode returns the receipt that is stored with a payment.
	Encode func(payment.Payment) (payment.Receipt, error)
	// LockWait limits the time that a request waits for its key.
	LockWait time.Duration
}

// Store is a payment.Repository on PostgreSQL.
type Store struct {
	options Options

	claims  *groupcommit.Committer[payment.Key, bid, reply]
	settles *groupcommit.Committer[payment.Key, settlement, settled]
	ends    *groupcommit.Committer[payment.Key, end, bool]
}

var _ payment.Repository = (*Store)(nil)

// New returns a store on the database of o, whose schema must be migrated.
func New(o Options) *Store {
	forKey, charged := o.Limits, o.Limits
	forKey.LockTimeout = o.LockWait
	charged.Share = nil // a charged payment is never refused, however many requests wait

	claims := groupcommit.New(groupcommit.Config[payment.Key, bid, reply]{
		Limits: forKey, Name: "payments_claim", Key: func(b bid) payment.Key { return b.Key }, Size: bid.size, Held: true,
		Repeat: sendClaims,
	})
	settles := groupcommit.New(groupcommit.Config[payment.Key, settlement, settled]{
		Limits: charged, Name: "payments_settle", Key: func(c settlement) payment.Key { return c.held.Key },
		Size: settlement.size, Repeat: sendSettlements,
	})
	ends := groupcommit.New(groupcommit.Config[payment.Key, end, bool]{
		Limits: charged, Name: "payments_change", Key: func(e end) payment.Key { return e.held.Key },
		Size: end.size, Repeat: sendEnds,
	})

	return &Store{options: o, claims: claims, settles: settles, ends: ends}
}

// Close waits until every request in flight is answered. The pool stays open.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.claims.Close(ctx), s.settles.Close(ctx), s.ends.Close(ctx))
}

const completed = "COMPLETED"

// record is the part of a key's row for requests that do not hold the key.
type record struct {
	Status      sql.NullString `db:"status"`
	Fingerprint []byte         `db:"request_fingerprint"`
	Version     sql.NullString `db:"fingerprint_version"`
	PaymentID   sql.NullString `db:"payment_id"` // from here on: only in a completed record
	Code        sql.NullInt32  `db:"response_status"`
	Body        []byte         `db:"response_body"`
}

const recordColumns = `r.status, r.request_fingerprint, r.fingerprint_version, r.payment_id, r.response_status,
           r.response_body`

func (r record) fingerprint() payment.Fingerprint {
	return payment.Fingerprint{Sum: r.Fingerprint, Version: r.Version.String}
}

func (r record) domain() *payment.Record {
	return &payment.Record{
		PaymentID: payment.ID(r.PaymentID.String), Receipt: payment.Receipt{Code: int(r.Code.Int32), Data: r.Body},
	}
}

// skipLocked returns a statement that waits for locked rows or skips them, as the attempt says.
func skipLocked(a *groupcommit.Attempt, head, tail string) string {
	if a.SkipLocked {
		return head + " SKIP LOCKED" + tail
	}
	return head + tail
}

// missing returns the answers to requests whose records were not found: empty ones, or nil if locked records are
// skipped, because then only the next statement tells whether there is a record.
func missing[R any](a *groupcommit.Attempt, n int) []*R {
	answers := make([]*R, n)
	for i := range answers {
		if !a.SkipLocked {
			answers[i] = new(R)
		}
	}
	return answers
}

func texts(n int) pq.StringArray  { return make(pq.StringArray, n) }
func numbers(n int) pq.Int64Array { return make(pq.Int64Array, n) }
