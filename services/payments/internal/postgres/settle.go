package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// alreadyWaited is the wait after which a request looks for the answer of the caller
// that it waited for. A claim without contention takes less.
const alreadyWaited = 10 * time.Millisecond

// Settle implements payment.Repository. It returns the bulkhead's errors unchanged.
func (s *Store) Settle(
	ctx context.Context, c payment.Claim, charge payment.ChargeFunc,
) (_ payment.Record, _ bool, err error) {
	if record, found, err := s.completed(ctx, c.Key); found || err != nil {
		return record, false, err
	}
	begin := time.Now()
	place, err := s.keys.Enter(ctx, c.Key, s.options.LockWait)
	if err != nil {
		return payment.Record{}, false, err
	}
	defer func() { place.Leave(err == nil) }()
	waited := time.Since(begin)
	if waited > alreadyWaited {
		if record, found, err := s.completed(ctx, c.Key); found || err != nil {
			return record, false, err
		}
	}
	closed := s.observer.Opened()
	defer closed()
	// From here on a client that disconnects cancels nothing: a charge must not be
	// left without its payment.
	ctx, cancel := detach(ctx)
	defer cancel()
	a := &attempt{store: s, claim: c, charge: charge, wait: max(s.options.LockWait-waited, time.Millisecond)}
	return a.settle(ctx)
}

// detach returns a context with ctx's values and deadline, without its cancellation.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(free, deadline)
	}
	return free, func() {}
}

// attempt holds the state of one request's attempt to settle a payment.
type attempt struct {
	store  *Store
	claim  payment.Claim
	charge payment.ChargeFunc
	wait   time.Duration // for the key's row

	record payment.Record // of the last run of the transaction
	fresh  bool           // record is of this request's own payment
	// charged are the records that were to be stored, one for each run of the
	// transaction in which the processor answered.
	charged []payment.Record
}

// settle runs the payment's transaction, and once more when its connection was lost
// after the processor was called: whether the payment is stored is then unknown. The
// second transaction claims the key again, which waits for the end of the first. It
// finds the first one's record, or stores the payment with the charge that the
// processor repeats. This also holds after a crash of the server, where
// sqldb.ResolveOutcome proves nothing.
func (a *attempt) settle(ctx context.Context) (payment.Record, bool, error) {
	err := a.transact(ctx)
	if err != nil && len(a.charged) > 0 && ctx.Err() == nil {
		err = a.transact(ctx)
	}
	switch {
	case err == nil:
		return a.record, a.fresh, nil
	case len(a.charged) == 0:
		return payment.Record{}, false, err
	default:
		// "Not applied" would be wrong for the card, whatever the last error was.
		return payment.Record{}, false, fmt.Errorf("%w: %s", payment.ErrOutcomeUnknown, err.Error())
	}
}

// Reasons to roll a transaction back although the request has its record.
var (
	errKeyCompleted  = errors.New("the key is completed")
	errAlreadyStored = errors.New("the payment is stored already")
)

// transact runs one transaction, which InTx repeats after a deadlock or a
// serialization failure. On success record and fresh hold the result.
func (a *attempt) transact(ctx context.Context) error {
	o := a.store.options
	err := a.store.db.InTx(ctx, a.run, sqldb.WithLockTimeout(a.wait), sqldb.WithIdleTimeout(o.IdleTimeout))
	switch {
	case err == nil:
		failpoint.Hit(failpoint.Committed)
		a.fresh = true
	case errors.Is(err, errAlreadyStored):
		a.fresh = true
	case errors.Is(err, errKeyCompleted):
		a.fresh = a.hasCharged(a.record.PaymentID)
	default:
		return err
	}
	return nil
}

// hasCharged reports whether a run of this attempt was to store the payment.
func (a *attempt) hasCharged(id payment.ID) bool {
	for _, r := range a.charged {
		if r.PaymentID == id {
			return true
		}
	}
	return false
}

// run is the body of the transaction. It may run several times: the processor then
// answers under the same key with the charge that it made.
func (a *attempt) run(ctx context.Context, tx *sqlx.Tx) error {
	now, err := a.claimKey(ctx, tx)
	if errors.Is(err, sql.ErrNoRows) {
		return a.readLive(ctx, tx)
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Claimed)
	if err := a.findStored(ctx, tx); err != nil {
		return err
	}
	var earlier int
	if err := tx.GetContext(ctx, &earlier, earlierSQL, string(a.claim.Key)); err != nil {
		return fmt.Errorf("count the key's payments: %w", err)
	}
	settlement, err := a.charge(ctx, payment.Claimed{Earlier: earlier, Now: now})
	if err != nil {
		return err
	}
	receipt, err := a.store.options.Encode(settlement.Payment)
	if err != nil {
		return err
	}
	a.record = payment.Record{Fingerprint: a.claim.Fingerprint, PaymentID: settlement.Payment.ID, Receipt: receipt}
	a.charged = append(a.charged, a.record)
	if err := a.write(ctx, tx, settlement, receipt); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Stored)
	return nil
}

// claimKey claims the key and returns the database's time. It returns sql.ErrNoRows
// when the key is live, and payment.ErrProcessing when its row stays locked for longer
// than a.wait.
func (a *attempt) claimKey(ctx context.Context, tx *sqlx.Tx) (now time.Time, err error) {
	const queryCanceled = "57014" // by this deadline (PostgreSQL manual, appendix A)
	begin := time.Now()
	// lock_timeout bounds each wait for a lock holder, and several holders may roll
	// back one after the other; the deadline bounds all of the waits together.
	limited, cancel := context.WithTimeout(ctx, a.wait+alreadyWaited)
	defer cancel()
	err = tx.GetContext(limited, &now, claimSQL,
		string(a.claim.Key), a.claim.Fingerprint.Sum, a.claim.Fingerprint.Version, a.claim.TTL.Microseconds())
	lock := a.store.options.Contention
	lock.Waited(contention.InDatabase, time.Since(begin))
	switch {
	case sqldb.LockTimedOut(err):
		return time.Time{}, payment.ErrProcessing
	case sqldb.SQLState(err) == queryCanceled && limited.Err() != nil && ctx.Err() == nil:
		lock.Conflict(contention.LockTimeout) // sqldb has counted the server's own already
		return time.Time{}, payment.ErrProcessing
	}
	return now.UTC(), err
}

// readLive reads the live record, which the claim has locked. It returns
// errKeyCompleted, or payment.ErrProcessing for a committed PROCESSING row: this
// version of the service commits none and takes none over.
func (a *attempt) readLive(ctx context.Context, tx *sqlx.Tx) error {
	const query = `SELECT ` + recordColumns + ` FROM payments.idempotency_records WHERE key = $1`
	var r record
	if err := tx.GetContext(ctx, &r, query, string(a.claim.Key)); err != nil {
		return fmt.Errorf("read the live record: %w", err)
	}
	if r.Status != statusCompleted {
		return payment.ErrProcessing
	}
	a.record = r.domain()
	return errKeyCompleted
}

// findStored returns errAlreadyStored when an earlier run stored its payment although
// the reply to its COMMIT was lost. Only a key that lives shorter than its request
// needs it: otherwise the claim meets the record itself.
func (a *attempt) findStored(ctx context.Context, tx *sqlx.Tx) error {
	const query = `SELECT id FROM payments.payments WHERE id = $1`
	for _, r := range a.charged {
		var id string
		err := tx.GetContext(ctx, &id, query, string(r.PaymentID))
		switch {
		case err == nil:
			a.record = r
			return errAlreadyStored
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("look for the payment of an earlier run: %w", err)
		}
	}
	return nil
}

// write stores the payment and its receipt.
func (a *attempt) write(ctx context.Context, tx *sqlx.Tx, s payment.Settlement, receipt payment.Receipt) error {
	p := s.Payment
	result, err := tx.ExecContext(ctx, storeSQL,
		string(p.ID), string(a.claim.Key), s.ProcessorKey, string(p.RideID), p.RiderID, p.Amount, string(p.Currency),
		string(p.Status), sql.NullString{String: p.DeclineCode, Valid: p.DeclineCode != ""},
		p.Card.Brand, p.Card.Last4, p.Card.ExpMonth, p.Card.ExpYear, p.CreatedAt, receipt.Code, string(receipt.Data))
	if err != nil {
		return fmt.Errorf("store the payment: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("the claimed record is gone: %d rows were completed (%w)", n, err)
	}
	return nil
}
