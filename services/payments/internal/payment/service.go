package payment

import (
	"context"
	"errors"
	"time"
)

// Service pays for rides and reads payments. It has no state, so any number of replicas may run. All of its fields are
// required.
type Service struct {
	Repository   Repository
	Processor    Processor
	Currencies   Currencies
	Fingerprints *Fingerprints
	// Claimed is called when a request has claimed its key; the returned function is called when the request ends.
	Claimed func() (ended func())
	// Settled is called for each payment that is stored.
	Settled func(Status)
	// Replayed is called for each stored answer that is returned again.
	Replayed func()
	// Conflict is called for each ErrKeyConflict.
	Conflict func()
	// TTL is the lifetime of a key.
	TTL time.Duration
	// Lease is the lifetime of a claim, longer than a charge takes.
	Lease time.Duration
	// ReconcileAfter is the time from the end of a claim until Reconcile asks about it.
	ReconcileAfter time.Duration
}

// Pay charges a ride once per key and returns the key's only answer. It fails with ErrKeyConflict, ErrProcessing,
// ErrProcessorFault, ErrProcessorTimeout, ErrOutcomeUnknown, ErrForeignFingerprint, an *InvalidError, or another error
// of the repository. After any of them the same key may be sent again.
func (s *Service) Pay(ctx context.Context, key Key, r Request) (Answer, error) {
	if !s.Currencies(r.Currency) {
		return Answer{}, invalid(fieldCurrency, "must be a currency of ISO 4217")
	}
	if r.Card.isIn(key.Value) {
		return Answer{}, invalid(FieldKey, holdsNumber)
	}

	claimed, err := s.Repository.Claim(ctx, s.claim(key, r))
	switch {
	case errors.Is(err, ErrKeyConflict):
		s.Conflict()
		return Answer{}, err
	case err != nil:
		return Answer{}, err
	case claimed.Record != nil:
		return s.replay(*claimed.Record), nil
	}
	ended := s.Claimed()
	defer ended()
	defer claimed.Leave()

	// From here on a client that leaves cancels nothing: every charge needs its payment.
	ctx = context.WithoutCancel(ctx)
	result, err := s.charge(ctx, claimed.Held, r)
	if err != nil {
		return Answer{}, err
	}

	p := newPayment(claimed.Held, result)
	record, fresh, err := s.Repository.Settle(ctx, claimed.Held, p)
	switch {
	case err != nil:
		_ = s.Repository.GiveBack(ctx, claimed.Held) // so that a repeat need not wait for the claim to run out
		return Answer{}, err
	case !fresh:
		return s.replay(record), nil
	}

	s.Settled(p.Status)
	return Answer{Record: record}, nil
}

// claim returns a claim of the key for the request.
func (s *Service) claim(key Key, r Request) Claim {
	form := r.Canonical()
	return Claim{
		Key: key, ID: ClaimID(NewID(time.Now())), Fingerprint: s.Fingerprints.Of(form),
		Same:  func(stored Fingerprint) (bool, error) { return s.Fingerprints.Same(stored, form) },
		Terms: Terms{Fare: r.Fare, Card: r.Card.Face()}, TTL: s.TTL, Lease: s.Lease,
	}
}

func (s *Service) replay(r Record) Answer {
	s.Replayed()
	return Answer{Record: r, Replayed: true}
}

// charge charges the card of a request that holds its key, or ends the claim. It checks the
// card's expiry only here, so that a repeat gets its answer even after the month has ended, and
// an expired card may still settle a charge that was made before.
func (s *Service) charge(ctx context.Context, h Held, r Request) (Result, error) {
	expired := r.Card.CheckExpiry(h.Now)
	result, err := s.Processor.Charge(ctx, Charge{
		Key: h.ProcessorKey, Fare: r.Fare, Card: r.Card, OnlyRepeat: expired != nil,
	})
	if err == nil {
		return result, nil
	}

	// Errors of Drop and GiveBack do not change the answer: the claim then runs out. After a
	// takeover a charge of the earlier holder may be on its way.
	switch {
	case errors.Is(err, ErrKeyConflict):
		s.Conflict()
		_ = s.Repository.Drop(ctx, h)
	case errors.Is(err, ErrNotCharged) && !h.TakenOver:
		_ = s.Repository.Drop(ctx, h)
	default:
		_ = s.Repository.GiveBack(ctx, h)
	}

	if expired != nil && errors.Is(err, ErrNotCharged) {
		err = expired
	}
	return Result{}, err
}

// newPayment returns the payment of a charge or a decline.
func newPayment(h Held, result Result) Payment {
	p := Payment{
		ID: NewID(h.Now), Fare: h.Terms.Fare, Status: Succeeded, DeclineCode: result.DeclineCode, Card: h.Terms.Card,
		CreatedAt: h.Now,
	}
	if result.DeclineCode != "" {
		p.Status = Declined
	}
	return p
}

// Find returns a payment, or ErrNotFound.
func (s *Service) Find(ctx context.Context, id ID) (Payment, error) {
	return s.Repository.Find(ctx, id)
}

// PaymentsOfRide returns up to limit payments of a ride (1 to MaxPageSize), newest first, and the position after the
// last of them, nil if there are no more. after is such a position, or nil for the first page.
func (s *Service) PaymentsOfRide(
	ctx context.Context, ride RideID, after *Position, limit int,
) ([]Payment, *Position, error) {
	if limit < 1 || limit > MaxPageSize {
		return nil, nil, invalid("limit", "must be 1 to 100")
	}

	page, err := s.Repository.FindOfRide(ctx, ride, after, limit+1) // one more shows whether another page follows
	if err != nil || len(page) <= limit {
		return page, nil, err
	}

	page = page[:limit]
	last := page[limit-1]
	return page, &Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}
