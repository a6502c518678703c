package payment

import (
	"context"
	"errors"
	"time"
)

// Service implements the inbound ports. It holds no state of its own, so any
// number of replicas may run.
type Service struct {
	parts Parts
}

var (
	_ PayAPI    = (*Service)(nil)
	_ LookupAPI = (*Service)(nil)
)

// Parts are what a service stands on; all are required.
type Parts struct {
	Repository   Repository
	Processor    Processor
	Currencies   Currencies
	Render       Renderer
	Fingerprints *Fingerprints
	Observer     Observer
	// TTL is how long a key lives.
	TTL time.Duration
}

// NewService returns the domain's service.
func NewService(p Parts) *Service { return &Service{p} }

// Pay implements PayAPI.
func (s *Service) Pay(ctx context.Context, key Key, r Request) (Answer, error) {
	if !s.parts.Currencies(r.Currency) {
		return Answer{}, invalid(fieldCurrency, "must be a currency of ISO 4217")
	}
	fingerprint, err := s.parts.Fingerprints.Of(r)
	if err != nil {
		return Answer{}, err
	}
	var status Status
	claim := Claim{Key: key, Fingerprint: fingerprint, TTL: s.parts.TTL}
	record, fresh, err := s.parts.Repository.Settle(ctx, claim, func(ctx context.Context, turn Turn) (Settlement, error) {
		settlement, err := s.settle(ctx, key, r, turn)
		status = settlement.Payment.Status
		return settlement, err
	})
	if err == nil && !fresh {
		err = s.compare(record, r)
	}
	switch {
	case errors.Is(err, ErrKeyConflict):
		s.parts.Observer.Conflict()
		return Answer{}, err
	case err != nil:
		return Answer{}, err
	case fresh:
		s.parts.Observer.Settled(status)
	default:
		s.parts.Observer.Replayed()
	}
	return Answer{Response: record.Response, PaymentID: record.PaymentID, Replayed: !fresh}, nil
}

// settle charges the card for whoever owns the key. The card's expiry is looked
// at here and not before, and a card that has expired may still settle the charge
// that was made while it had not: a repeat gets its answer even when the month has
// ended in between.
func (s *Service) settle(ctx context.Context, key Key, r Request, turn Turn) (Settlement, error) {
	expired := r.Card.CheckExpiry(turn.Now)
	processorKey := ProcessorKey(key, turn.Earlier)
	result, err := s.parts.Processor.Charge(ctx, Charge{
		Key: processorKey, Amount: r.Amount, Currency: r.Currency, Card: r.Card, OnlyRepeat: expired != nil,
	})
	if errors.Is(err, ErrNotCharged) {
		err = expired
	}
	if err != nil {
		return Settlement{}, err
	}
	p := Payment{
		ID: NewID(turn.Now), RideID: r.RideID, RiderID: r.RiderID, Amount: r.Amount, Currency: r.Currency,
		Status: Succeeded, DeclineCode: result.DeclineCode, Card: r.Card.Face(), CreatedAt: turn.Now,
	}
	if result.DeclineCode != "" {
		p.Status = Declined
	}
	response, err := s.parts.Render(p)
	if err != nil {
		return Settlement{}, err
	}
	return Settlement{Payment: p, ProcessorKey: processorKey, Response: response}, nil
}

// compare refuses a request that is not the one that the record answers.
func (s *Service) compare(record Record, r Request) error {
	same, err := s.parts.Fingerprints.Same(record.Fingerprint, r)
	if err == nil && !same {
		err = ErrKeyConflict
	}
	return err
}

// Payment implements LookupAPI.
func (s *Service) Payment(ctx context.Context, id ID) (Payment, error) {
	return s.parts.Repository.Find(ctx, id)
}

// PaymentsOfRide implements LookupAPI.
func (s *Service) PaymentsOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, *Position, error) {
	if limit < 1 || limit > MaxPageSize {
		return nil, nil, invalid("limit", "must be 1 to 100")
	}
	page, err := s.parts.Repository.FindOfRide(ctx, ride, after, limit+1) // one more tells whether there is more
	if err != nil || len(page) <= limit {
		return page, nil, err
	}
	page = page[:limit]
	last := page[limit-1]
	return page, &Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}
