package payment

import (
	"context"
	"errors"
	"time"
)

// Service implements the inbound ports. It has no state, so any number of replicas
// may run.
type Service struct {
	parts Parts
}

var (
	_ PayAPI    = (*Service)(nil)
	_ LookupAPI = (*Service)(nil)
)

// Parts are the dependencies of a Service; all are required.
type Parts struct {
	Repository   Repository
	Processor    Processor
	Currencies   Currencies
	Fingerprints *Fingerprints
	Observer     Observer
	// TTL is the lifetime of a key.
	TTL time.Duration
	// Lease is the lifetime of a claim, longer than a charge takes.
	Lease time.Duration
	// ReconcileAfter is the time from the end of a claim until Reconcile asks about it.
	ReconcileAfter time.Duration
}

// NewService returns the domain's service.
func NewService(p Parts) *Service { return &Service{p} }

// Pay implements PayAPI.
func (s *Service) Pay(ctx context.Context, key Key, r Request) (Answer, error) {
	if !s.parts.Currencies(r.Currency) {
		return Answer{}, invalid(fieldCurrency, "must be a currency of ISO 4217")
	}

	claimed, err := s.parts.Repository.Claim(ctx, s.claim(key, r))
	switch {
	case errors.Is(err, ErrKeyConflict):
		s.parts.Observer.Conflict()
		return Answer{}, err
	case err != nil:
		return Answer{}, err
	case claimed.Record != nil:
		return s.replay(*claimed.Record), nil
	}
	ended := s.parts.Observer.Claimed()
	defer ended()
	defer claimed.Leave()

	// From here on a client that leaves cancels nothing: every charge needs its payment.
	ctx = context.WithoutCancel(ctx)
	result, err := s.charge(ctx, claimed.Held, r)
	if err != nil {
		return Answer{}, err
	}

	p := newPayment(claimed.Held, result)
	record, fresh, err := s.parts.Repository.Settle(ctx, claimed.Held, p)
	switch {
	case err != nil:
		_ = s.parts.Repository.GiveBack(ctx, claimed.Held) // so that a repeat need not wait for the claim to run out
		return Answer{}, err
	case !fresh:
		return s.replay(record), nil
	}

	s.parts.Observer.Settled(p.Status)
	return Answer{PaymentID: record.PaymentID, Receipt: record.Receipt}, nil
}

// claim returns a claim of the key for the request.
func (s *Service) claim(key Key, r Request) Claim {
	return Claim{
		Key: key, ID: ClaimID(NewID(time.Now())), Fingerprint: s.parts.Fingerprints.Of(r),
		Same: func(stored Fingerprint) (bool, error) { return s.parts.Fingerprints.Same(stored, r) },
		Terms: Terms{
			RideID: r.RideID, RiderID: r.RiderID, Amount: r.Amount, Currency: r.Currency, Card: r.Card.Face(),
		},
		TTL: s.parts.TTL, Lease: s.parts.Lease,
	}
}

func (s *Service) replay(r Record) Answer {
	s.parts.Observer.Replayed()
	return Answer{PaymentID: r.PaymentID, Receipt: r.Receipt, Replayed: true}
}

// charge charges the card of a request that holds its key, or ends the claim. It checks the
// card's expiry only here, so that a repeat gets its answer even after the month has ended, and
// an expired card may still settle a charge that was made before.
func (s *Service) charge(ctx context.Context, h Held, r Request) (Result, error) {
	expired := r.Card.CheckExpiry(h.Now)
	result, err := s.parts.Processor.Charge(ctx, Charge{
		Key: h.ProcessorKey, RideID: r.RideID, RiderID: r.RiderID, Amount: r.Amount, Currency: r.Currency, Card: r.Card,
		OnlyRepeat: expired != nil,
	})
	if err == nil {
		return result, nil
	}

	// Errors of Drop and GiveBack do not change the answer: the claim then runs out. After a
	// takeover a charge of the earlier holder may be on its way.
	switch {
	case errors.Is(err, ErrKeyConflict):
		s.parts.Observer.Conflict()
		_ = s.parts.Repository.Drop(ctx, h)
	case errors.Is(err, ErrNotCharged) && !h.TakenOver:
		_ = s.parts.Repository.Drop(ctx, h)
	default:
		_ = s.parts.Repository.GiveBack(ctx, h)
	}

	if expired != nil && errors.Is(err, ErrNotCharged) {
		err = expired
	}
	return Result{}, err
}

// newPayment returns the payment of a charge or a decline.
func newPayment(h Held, result Result) Payment {
	t := h.Terms
	p := Payment{
		ID: NewID(h.Now), RideID: t.RideID, RiderID: t.RiderID, Amount: t.Amount, Currency: t.Currency,
		Status: Succeeded, DeclineCode: result.DeclineCode, Card: t.Card, CreatedAt: h.Now,
	}
	if result.DeclineCode != "" {
		p.Status = Declined
	}
	return p
}

// Payment implements LookupAPI.
func (s *Service) Payment(ctx context.Context, id ID) (Payment, error) {
	return s.parts.Repository.Find(ctx, id)
}

// PaymentsOfRide implements LookupAPI.
func (s *Service) PaymentsOfRide(
	ctx context.Context, ride RideID, after *Position, limit int,
) ([]Payment, *Position, error) {
	if limit < 1 || limit > MaxPageSize {
		return nil, nil, invalid("limit", "must be 1 to 100")
	}

	page, err := s.parts.Repository.FindOfRide(ctx, ride, after, limit+1) // one more shows whether another page follows
	if err != nil || len(page) <= limit {
		return page, nil, err
	}

	page = page[:limit]
	last := page[limit-1]
	return page, &Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}
