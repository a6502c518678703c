package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// earlierSQL is a statement of its own, after the claim: its snapshot must see the
// payment of whoever held the key before, for whom the claim has waited.
const earlierSQL = `SELECT count(*) FROM payments.payments WHERE idempotency_key = $1`

// storeSQL writes the payment and the answer to it.
const storeSQL = `
WITH paid AS (
    INSERT INTO payments.payments (id, idempotency_key, processor_key, ride_id, rider_id, amount, currency, status, decline_code,
                                   card_brand, card_last4, card_exp_month, card_exp_year, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
)
UPDATE payments.idempotency_records
   SET status = 'COMPLETED', payment_id = $1, response_status = $15, response_body = $16
 WHERE key = $2 AND status = 'PROCESSING'`

const recordColumns = `status, request_fingerprint, fingerprint_version, payment_id, response_status, response_body`

// record is an idempotency_records row.
type record struct {
	Status      string         `db:"status"`
	Fingerprint []byte         `db:"request_fingerprint"`
	Version     string         `db:"fingerprint_version"`
	PaymentID   sql.NullString `db:"payment_id"`
	Response    sql.NullInt32  `db:"response_status"`
	Body        []byte         `db:"response_body"`
}

func (r record) domain() payment.Record {
	return payment.Record{
		Fingerprint: payment.Fingerprint{Sum: r.Fingerprint, Version: r.Version},
		PaymentID:   payment.ID(r.PaymentID.String),
		Response:    payment.Response{Status: int(r.Response.Int32), Body: r.Body},
	}
}

const completed = "COMPLETED"

// Settle implements payment.Repository.
func (s *Store) Settle(
	ctx context.Context, c payment.Claim, settle func(context.Context, payment.Turn) (payment.Settlement, error),
) (r payment.Record, fresh bool, err error) {
	if found, err := s.finished(ctx, c.Key); err != nil || found != nil {
		return deref(found), false, err
	}
	begin := time.Now()
	err = s.bulkhead.Do(ctx, c.Key, s.options.LockWait, func() (err error) {
		waited := time.Since(begin)
		if waited > noWait {
			// Whoever was inside has probably left an answer.
			if found, err := s.finished(ctx, c.Key); err != nil || found != nil {
				r = deref(found)
				return err
			}
		}
		t := &turn{store: s, claim: c, settle: settle}
		r, fresh, err = s.transact(ctx, t, max(s.options.LockWait-waited, time.Millisecond))
		return err
	})
	switch {
	case !errors.Is(err, bulkhead.ErrBusy):
		return r, fresh, err
	case errors.Is(err, bulkhead.ErrFull) || ctx.Err() != nil:
		return payment.Record{}, false, fmt.Errorf("%w: %w", payment.ErrBusy, err)
	default:
		return payment.Record{}, false, payment.ErrProcessing
	}
}

// transact runs the payment's transaction, which waits so long for its row.
//
// A connection that is lost once the processor was asked leaves open whether the
// payment is stored. The key itself has the answer: a second transaction claims it
// again, which waits for what becomes of the first. Either the first one's record
// is there, or the key is free and the payment is stored now, the processor
// answering with the charge that it made. This also holds after a crash of the
// server, where a transaction's id (sqldb.ResolveOutcome) proves nothing, and costs
// nothing while all is well.
func (s *Store) transact(ctx context.Context, t *turn, wait time.Duration) (payment.Record, bool, error) {
	closed := s.observer.Opened()
	defer closed()
	t.wait = wait
	// From here on a client that leaves changes nothing: a charge must not be
	// left without its payment because nobody waits for the answer any more.
	detached, cancel := detach(ctx)
	defer cancel()
	for again := true; ; again = false {
		err := s.db.InTx(detached, t.run, sqldb.WithLockTimeout(wait), sqldb.WithIdleTimeout(s.options.IdleTimeout))
		switch {
		case err == nil:
			failpoint.Hit(failpoint.Committed)
			return t.record, true, nil
		case errors.Is(err, errLive):
			return t.record, t.wrote(t.record.PaymentID) != nil, nil
		case errors.Is(err, errOurs):
			return t.record, true, nil
		case len(t.written) == 0:
			return payment.Record{}, false, err
		case !again || detached.Err() != nil:
			// "Not applied" would be a lie about the card, whatever the last error was.
			return payment.Record{}, false, fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
		}
	}
}

// errLive rolls a transaction back that found a live record: it has read it under
// its lock, and there is nothing to commit.
var errLive = errors.New("the key is live")

// errOurs rolls a second claim back that took a key whose record has expired
// since this very request stored its payment.
var errOurs = errors.New("the payment is stored already")

// finished reads the live and finished record of a key; nil when there is none.
// Most repeats end here, with one plain read and no lock.
func (s *Store) finished(ctx context.Context, key payment.Key) (*payment.Record, error) {
	const query = `
SELECT ` + recordColumns + `
  FROM payments.idempotency_records
 WHERE key = $1 AND status = 'COMPLETED' AND expires_at > clock_timestamp()`
	var r record
	err := s.db.GetContext(ctx, &r, query, string(key))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // no record is no error
	}
	if err != nil {
		return nil, err
	}
	found := r.domain()
	return &found, nil
}

func deref(r *payment.Record) payment.Record {
	if r == nil {
		return payment.Record{}
	}
	return *r
}

// detach keeps ctx's values and deadline, not its cancellation.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(free, deadline)
	}
	return free, func() {}
}

// turn is one transaction on one key.
type turn struct {
	store  *Store
	claim  payment.Claim
	wait   time.Duration // for the key's row
	settle func(context.Context, payment.Turn) (payment.Settlement, error)

	record payment.Record
	// written are the records that were to be stored, one for each run of the
	// transaction in which the processor had its say.
	written []payment.Record
}

// wrote is the written record of a payment, if there is one.
func (t *turn) wrote(id payment.ID) *payment.Record {
	for i := range t.written {
		if t.written[i].PaymentID == id {
			return &t.written[i]
		}
	}
	return nil
}

// stored looks for a payment that an earlier run of this request stored although
// its COMMIT was lost. Only a key that lives shorter than a request takes needs
// it: otherwise the claim meets the record itself.
func (t *turn) stored(ctx context.Context, tx *sqlx.Tx) error {
	const query = `SELECT id FROM payments.payments WHERE id = $1`
	for _, r := range t.written {
		var id string
		err := tx.GetContext(ctx, &id, query, string(r.PaymentID))
		switch {
		case err == nil:
			t.record = r
			return errOurs
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("look for the payment of an earlier run: %w", err)
		}
	}
	return nil
}

// run is the body of the transaction. After a deadlock or a serialization
// failure it runs again, from the claim on: the processor then answers by the
// same key with the charge that it made.
func (t *turn) run(ctx context.Context, tx *sqlx.Tx) error {
	t.record = payment.Record{}
	now, err := t.take(ctx, tx)
	if errors.Is(err, sql.ErrNoRows) {
		return t.read(ctx, tx)
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Claimed)
	if err := t.stored(ctx, tx); err != nil {
		return err
	}
	var earlier int
	if err := tx.GetContext(ctx, &earlier, earlierSQL, string(t.claim.Key)); err != nil {
		return fmt.Errorf("count the key's payments: %w", err)
	}
	settlement, err := t.settle(ctx, payment.Turn{Earlier: earlier, Now: now})
	if err != nil {
		return err
	}
	t.written = append(t.written, payment.Record{
		Fingerprint: t.claim.Fingerprint, PaymentID: settlement.Payment.ID, Response: settlement.Response,
	})
	if err := t.write(ctx, tx, settlement); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Stored)
	return nil
}

// take claims the key. sql.ErrNoRows says that it is somebody's.
func (t *turn) take(ctx context.Context, tx *sqlx.Tx) (now time.Time, err error) {
	begin := time.Now()
	// lock_timeout counts for each wait anew, and holders that roll back one after
	// the other make one claim wait for each of them; the deadline counts for all.
	limited, cancel := context.WithTimeout(ctx, t.wait+noWait)
	defer cancel()
	err = tx.GetContext(limited, &now, claimSQL,
		string(t.claim.Key), t.claim.Fingerprint.Sum, t.claim.Fingerprint.Version, t.claim.TTL.Microseconds())
	lock := t.store.options.Contention
	lock.Waited(contention.InDatabase, time.Since(begin))
	switch {
	case sqldb.LockTimedOut(err):
		return time.Time{}, payment.ErrProcessing
	case sqldb.SQLState(err) == queryCanceled && limited.Err() != nil && ctx.Err() == nil:
		lock.Conflict(contention.LockTimeout) // ours, where the server's own is counted already
		return time.Time{}, payment.ErrProcessing
	}
	return now.UTC(), err
}

const (
	// noWait is what a key takes at most when nobody is in the way.
	noWait = 10 * time.Millisecond
	// queryCanceled is a deadline of ours (PostgreSQL manual, appendix A).
	queryCanceled = "57014"
)

// read reads the live record, which the claim has locked.
func (t *turn) read(ctx context.Context, tx *sqlx.Tx) error {
	const query = `SELECT ` + recordColumns + ` FROM payments.idempotency_records WHERE key = $1`
	var r record
	if err := tx.GetContext(ctx, &r, query, string(t.claim.Key)); err != nil {
		return fmt.Errorf("read the live record: %w", err)
	}
	if r.Status != completed {
		return payment.ErrProcessing // nobody here commits such a row; should one be found, it is nobody's to take
	}
	t.record = r.domain()
	return errLive
}

// write stores the payment and the answer.
func (t *turn) write(ctx context.Context, tx *sqlx.Tx, s payment.Settlement) error {
	p := s.Payment
	result, err := tx.ExecContext(ctx, storeSQL,
		string(p.ID), string(t.claim.Key), s.ProcessorKey, string(p.RideID), p.RiderID, p.Amount, string(p.Currency), string(p.Status),
		sql.NullString{String: p.DeclineCode, Valid: p.DeclineCode != ""},
		p.Card.Brand, p.Card.Last4, p.Card.ExpMonth, p.Card.ExpYear, p.CreatedAt, s.Response.Status, string(s.Response.Body))
	if err != nil {
		return fmt.Errorf("store the payment: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("the claimed record is gone: %d rows were completed (%w)", n, err)
	}
	t.record = payment.Record{Fingerprint: t.claim.Fingerprint, PaymentID: p.ID, Response: s.Response}
	return nil
}
