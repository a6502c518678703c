package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/platform/bulkhead"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Claim implements payment.Repository. It returns the errors of the queue and of the groups unchanged.
func (s *Store) Claim(ctx context.Context, c payment.Claim) (payment.Claimed, error) {
	if s.keys.Busy(c.Key) { // a claim would queue, and the answer may be there
		now, err := s.look(ctx, c.Key)
		if err != nil {
			return payment.Claimed{}, err
		}
		if r, err := answer(now, c); r != nil || err != nil {
			return payment.Claimed{Record: r}, err
		}
	}
	begin := time.Now()
	place, err := s.keys.Enter(ctx, c.Key, s.options.LockWait)
	if err != nil {
		return payment.Claimed{}, err
	}
	a := attempt{store: s, claim: c, place: &place, begin: begin}
	claimed, err := a.run(ctx)
	if err != nil || claimed.Record != nil {
		place.Leave(err == nil)
		return claimed, err
	}
	failpoint.Hit(failpoint.Claimed)
	closed := s.observer.Opened()
	claimed.Leave = func(settled bool) {
		closed()
		place.Leave(settled)
	}
	return claimed, nil
}

// answer returns the record that was found if it is the claim's own, nil while the claim of the same request runs and
// where nothing was found, and payment.ErrKeyConflict for another request's.
func answer(found state, c payment.Claim) (*payment.Record, error) {
	if !found.found {
		return nil, nil //nolint:nilnil // neither a record nor a fault
	}
	same, err := c.Same(found.row.fingerprint())
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, payment.ErrKeyConflict
	case found.row.Status != statusCompleted:
		return nil, nil //nolint:nilnil // as above
	}
	return found.row.domain(), nil
}

// attempt holds the state of one request's attempt to claim its key.
type attempt struct {
	store *Store
	claim payment.Claim
	place *bulkhead.Place[payment.Key]
	begin time.Time
}

// run claims the key, takes its claim over once that has run out, or waits for the record.
func (a *attempt) run(ctx context.Context) (payment.Claimed, error) {
	var now state
	waited := false
	for {
		record, err := answer(now, a.claim)
		unconfirmed := record != nil && now.row.Unconfirmed
		if record != nil && !unconfirmed || err != nil {
			a.waited(waited)
			return payment.Claimed{Record: record}, err
		}
		switch {
		case !now.found:
			now, err = do(ctx, a.store.claims, bid{a.claim, now.earlier})
		case unconfirmed: // a claim that finds a record writes nothing, and so waits for no standby
			now, err = a.store.look(ctx, a.claim.Key)
		case now.left() <= 0:
			now, err = a.takeOver(ctx, now)
		default:
			waited = true
			now, err = a.wait(ctx, now)
		}
		switch {
		case errors.Is(err, coalesce.ErrLocked), errors.Is(err, payment.ErrProcessing):
			a.store.options.Contention.Conflict(contention.Held)
			err = payment.ErrProcessing
		case err == nil && now.held == nil:
			continue
		}
		a.waited(waited)
		if err != nil {
			return payment.Claimed{}, unpaid(err)
		}
		return payment.Claimed{Held: *now.held}, nil
	}
}

// unpaid returns the error of a claim as one of a payment: whether the claim is stored or not, nothing was charged.
func unpaid(err error) error {
	if e, ok := errors.AsType[*sqldb.Error](err); ok {
		known := *e
		known.Outcome = sqldb.NotApplied
		return &known
	}
	return err
}

// waited records the wait for another replica's claim; a group records its own.
func (a *attempt) waited(waited bool) {
	if waited {
		a.store.options.Contention.Waited(contention.InDatabase, time.Since(a.begin))
	}
}

// takeOver takes over the claim that was found, or finds what became of it.
func (a *attempt) takeOver(ctx context.Context, found state) (state, error) {
	now, err := do(ctx, a.store.changes, change{
		kind: takeOver, fence: found.row.ClaimID.String, lease: a.claim.Lease, ttl: a.claim.TTL,
		held: payment.Held{Record: found.row.Name, ClaimID: a.claim.ID, Terms: a.claim.Terms},
	})
	if err != nil || now.held == nil {
		return a.lookAgain(ctx, now, err)
	}
	a.store.options.Contention.Conflict(contention.TakenOver)
	return now, nil
}

func (a *attempt) lookAgain(ctx context.Context, now state, err error) (state, error) {
	if err != nil {
		return now, err
	}
	return a.store.look(ctx, a.claim.Key)
}

// Pauses between two looks at a claim of another replica grow with the wait.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// wait waits for a while, holding a place of the share, and looks again. It returns payment.ErrProcessing when
// LOCK_WAIT is over.
func (a *attempt) wait(ctx context.Context, found state) (state, error) {
	since := time.Since(a.begin)
	left := a.store.options.LockWait - since
	if left <= 0 {
		return state{}, payment.ErrProcessing
	}
	if !a.place.Hold() {
		return state{}, contention.ErrCrowded
	}
	pause := min(max(since/2, firstPause), lastPause)
	pause = min(pause/2+rand.N(pause), found.left(), left)
	select {
	case <-time.After(pause):
		return a.store.look(ctx, a.claim.Key)
	case <-ctx.Done():
		return state{}, errors.Join(bulkhead.ErrBusy, ctx.Err())
	}
}
