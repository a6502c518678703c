package paymenttest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Memory is a repository in the process's memory. It passes Exercise, so that
// port tests on it do not rest on a lie. It settles one key at a time, all others
// wait; LockWait it does not have.
type Memory struct {
	settling sync.Mutex

	mu       sync.Mutex
	records  map[payment.Key]memoryRecord
	payments []storedPayment
}

type memoryRecord struct {
	payment.Record

	expires time.Time
}

type storedPayment struct {
	payment.Payment

	key payment.Key
}

var _ payment.Repository = (*Memory)(nil)

// NewMemory returns an empty repository.
func NewMemory() *Memory { return &Memory{records: make(map[payment.Key]memoryRecord)} }

// Settle implements payment.Repository.
func (m *Memory) Settle(
	ctx context.Context, c payment.Claim, settle func(context.Context, payment.Turn) (payment.Settlement, error),
) (payment.Record, bool, error) {
	m.settling.Lock()
	defer m.settling.Unlock()
	if err := ctx.Err(); err != nil {
		return payment.Record{}, false, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	turn, live := m.claim(c.Key, now)
	if live != nil {
		return *live, false, nil
	}
	s, err := settle(ctx, turn)
	if err != nil {
		return payment.Record{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := payment.Record{Fingerprint: c.Fingerprint, PaymentID: s.Payment.ID, Response: s.Response}
	m.records[c.Key] = memoryRecord{r, now.Add(c.TTL)}
	m.payments = append(m.payments, storedPayment{s.Payment, c.Key})
	return r, true, nil
}

// claim returns the live record, or the turn of whoever asks.
func (m *Memory) claim(key payment.Key, now time.Time) (payment.Turn, *payment.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[key]; ok && r.expires.After(now) {
		return payment.Turn{}, &r.Record
	}
	turn := payment.Turn{Now: now}
	for _, p := range m.payments {
		if p.key == key {
			turn.Earlier++
		}
	}
	return turn, nil
}

// Find implements payment.Repository.
func (m *Memory) Find(_ context.Context, id payment.ID) (payment.Payment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.payments {
		if p.ID == id {
			return p.Payment, nil
		}
	}
	return payment.Payment{}, payment.ErrNotFound
}

// FindOfRide implements payment.Repository.
func (m *Memory) FindOfRide(_ context.Context, ride payment.RideID, after *payment.Position, limit int) ([]payment.Payment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []payment.Payment
	for _, p := range m.payments {
		if p.RideID == ride && (after == nil || newestFirst(p.CreatedAt, p.ID, after.CreatedAt, after.ID) > 0) {
			page = append(page, p.Payment)
		}
	}
	slices.SortFunc(page, func(a, b payment.Payment) int { return newestFirst(a.CreatedAt, a.ID, b.CreatedAt, b.ID) })
	return page[:min(limit, len(page))], nil
}

func newestFirst(atA time.Time, a payment.ID, atB time.Time, b payment.ID) int {
	return cmp.Or(atB.Compare(atA), cmp.Compare(b, a))
}

// DeleteExpired implements payment.Repository.
func (m *Memory) DeleteExpired(_ context.Context, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	deleted := 0
	for key, r := range m.records {
		if deleted < limit && !r.expires.After(time.Now()) {
			delete(m.records, key)
			deleted++
		}
	}
	return deleted, nil
}

// Failing is a repository whose every method fails with Err.
type Failing struct{ Err error }

var _ payment.Repository = Failing{}

// Settle implements payment.Repository.
func (f Failing) Settle(
	context.Context, payment.Claim, func(context.Context, payment.Turn) (payment.Settlement, error),
) (payment.Record, bool, error) {
	return payment.Record{}, false, f.Err
}

// Find implements payment.Repository.
func (f Failing) Find(context.Context, payment.ID) (payment.Payment, error) {
	return payment.Payment{}, f.Err
}

// FindOfRide implements payment.Repository.
func (f Failing) FindOfRide(context.Context, payment.RideID, *payment.Position, int) ([]payment.Payment, error) {
	return nil, f.Err
}

// DeleteExpired implements payment.Repository.
func (f Failing) DeleteExpired(context.Context, int) (int, error) { return 0, f.Err }

// Processor is a payment.Processor that charges in memory, once per key.
type Processor struct {
	// Fail, if set, is asked first; what it returns ends the call. charged says
	// whether the key has been charged already.
	Fail func(c payment.Charge, charged bool) error
	// FailAfter is asked after the charge was made.
	FailAfter func(c payment.Charge) error
	// Decline, if set, is the answer to every charge.
	Decline string

	mu      sync.Mutex
	charges map[string]payment.Charge
	calls   int
}

var _ payment.Processor = (*Processor)(nil)

// Charge implements payment.Processor.
func (p *Processor) Charge(_ context.Context, c payment.Charge) (payment.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.OnlyRepeat {
		p.calls++
	}
	earlier, charged := p.charges[c.Key]
	if p.Fail != nil {
		if err := p.Fail(c, charged); err != nil {
			return payment.Result{}, err
		}
	}
	compared := c
	compared.OnlyRepeat = earlier.OnlyRepeat
	switch {
	case charged && earlier != compared:
		return payment.Result{}, payment.ErrKeyConflict
	case !charged && c.OnlyRepeat:
		return payment.Result{}, payment.ErrNotCharged
	case !charged && p.Decline != "":
		return payment.Result{DeclineCode: p.Decline}, nil
	}
	if p.charges == nil {
		p.charges = make(map[string]payment.Charge)
	}
	p.charges[c.Key] = compared
	if p.FailAfter != nil {
		if err := p.FailAfter(c); err != nil {
			return payment.Result{}, err
		}
	}
	return payment.Result{}, nil
}

// Charges is how many charges were made.
func (p *Processor) Charges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.charges)
}

// Calls is how often Charge was asked for a charge.
func (p *Processor) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Observer counts what it is told.
type Observer struct {
	mu                           sync.Mutex
	settled, replayed, conflicts int
}

var _ payment.Observer = (*Observer)(nil)

// Settled implements payment.Observer.
func (o *Observer) Settled(payment.Status) { o.add(&o.settled) }

// Replayed implements payment.Observer.
func (o *Observer) Replayed() { o.add(&o.replayed) }

// Conflict implements payment.Observer.
func (o *Observer) Conflict() { o.add(&o.conflicts) }

func (o *Observer) add(n *int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*n++
}

// Counts returns how often each was called.
func (o *Observer) Counts() (settled, replayed, conflicts int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settled, o.replayed, o.conflicts
}
