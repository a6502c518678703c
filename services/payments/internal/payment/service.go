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

// Parts are the dependencies of a Service; all are required.
type Parts struct {
	Repository   Repository
	Processor    Processor
	Currencies   Currencies
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
	var status Status
	claim := Claim{Key: key, Fingerprint: s.parts.Fingerprints.Of(r), TTL: s.parts.TTL}
	charge := func(ctx context.Context, c Claimed) (Settlement, error) {
		settlement, err := s.charge(ctx, key, r, c)
		status = settlement.Payment.Status
		return settlement, err
	}
	record, fresh, err := s.parts.Repository.Settle(ctx, claim, charge)
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
	return Answer{PaymentID: record.PaymentID, Receipt: record.Receipt, Replayed: !fresh}, nil
}

// charge charges the card of a request that owns its key. It checks the card's expiry
// here and not before, and an expired card may still settle the charge that was made
// before its month ended: a repeat gets its answer all the same.
func (s *Service) charge(ctx context.Context, key Key, r Request, c Claimed) (Settlement, error) {
	expired := r.Card.CheckExpiry(c.Now)
	processorKey := ProcessorKey(key, c.Earlier)
	result, err := s.parts.Processor.Charge(ctx, Charge{
		Key: processorKey, RideID: r.RideID, RiderID: r.RiderID, Amount: r.Amount, Currency: r.Currency, Card: r.Card,
		OnlyRepeat: expired != nil,
	})
	if errors.Is(err, ErrNotCharged) && expired != nil {
		err = expired
	}
	if err != nil {
		return Settlement{}, err
	}
	p := Payment{
		ID: NewID(c.Now), RideID: r.RideID, RiderID: r.RiderID, Amount: r.Amount, Currency: r.Currency,
		Status: Succeeded, DeclineCode: result.DeclineCode, Card: r.Card.Face(), CreatedAt: c.Now,
	}
	if result.DeclineCode != "" {
		p.Status = Declined
	}
	return Settlement{Payment: p, ProcessorKey: processorKey}, nil
}

// compare returns ErrKeyConflict when the record answers another request than r.
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
