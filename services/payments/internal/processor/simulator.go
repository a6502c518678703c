package processor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The cards with a special result.
const (
	cardDeclined      = "4000000000000002"
	insufficientFunds = "4000000000009995"
	cardFault         = "4000000000000119"
	cardTimeout       = "4000000000000259"
)

// Options configure the simulator.
type Options struct {
	// Latency is the time before each charge. If LatencyMax is longer, the time is random between the two.
	Latency, LatencyMax time.Duration
	// Timeout limits a call. Afterwards the charge may or may not have been made.
	Timeout time.Duration
	// Limits are for the ledger's groups. DB is a pool of LedgerConns connections that payments do not use.
	Limits groupcommit.Limits
	// Operations makes a span for each call; it may be nil.
	Operations *telemetry.Operations
}

// Simulator implements payment.Processor on a durable ledger.
type Simulator struct {
	// ledger enters an entry into the table payments.processor_charges, or returns the existing one of its key. Entries
	// are never changed. Concurrent charges share one statement.
	ledger       *groupcommit.Committer[string, entry, entry]
	fingerprints *payment.Fingerprints
	options      Options
	closed       chan struct{}
}

var _ payment.Processor = (*Simulator)(nil)

// New returns a simulator.
func New(fingerprints *payment.Fingerprints, o Options) *Simulator {
	ledger := groupcommit.New(groupcommit.Config[string, entry, entry]{
		Limits: o.Limits, Name: "payments_ledger", Key: func(e entry) string { return e.Key }, Size: entry.size,
		Repeat: sendEntries,
	})
	return &Simulator{ledger: ledger, fingerprints: fingerprints, options: o, closed: make(chan struct{})}
}

// Close drops the charges that still wait for the latency, as a crash would, and waits for the others. It must be
// called once. The pool stays open.
func (s *Simulator) Close(ctx context.Context) error {
	close(s.closed)
	return s.ledger.Close(ctx)
}

// Charge implements payment.Processor. Like a real processor's, a charge continues when its caller stops waiting.
func (s *Simulator) Charge(ctx context.Context, c payment.Charge) (r payment.Result, err error) {
	ctx, end := s.options.Operations.Start(ctx, "processor.charge", trace.WithSpanKind(trace.SpanKindClient))
	defer end(&err)
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()

	failpoint.Hit(failpoint.Charging)
	there, err := s.await(ctx, c)
	if err == nil && !there.Fresh {
		err = s.compare(there, c, true)
	}

	switch {
	case err != nil:
		return payment.Result{}, err
	case there.DeclineCode != "":
		return payment.Result{DeclineCode: there.DeclineCode}, nil
	}

	failpoint.Hit(failpoint.Charged)
	if there.Fresh && c.Card.Number.Reveal() == cardTimeout {
		<-ctx.Done()
		return payment.Result{}, payment.ErrProcessorTimeout
	}
	return payment.Result{}, nil
}

// Find implements payment.Processor.
func (s *Simulator) Find(ctx context.Context, c payment.Charge) (r payment.Result, err error) {
	ctx, end := s.options.Operations.Start(ctx, "processor.find", trace.WithSpanKind(trace.SpanKindClient))
	defer end(&err)
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()

	if err := s.pause(ctx); err != nil {
		return payment.Result{}, err
	}
	there, err := find(ctx, s.options.Limits.DB, c.Key)
	if err != nil {
		return payment.Result{}, fault(ctx, err)
	}
	if err := s.compare(there, c, false); err != nil {
		return payment.Result{}, err
	}
	return payment.Result{DeclineCode: there.DeclineCode}, nil
}

// await returns the answer to a charge, or payment.ErrProcessorTimeout when ctx ends first: the charge may then have
// been made, or may still be made.
func (s *Simulator) await(ctx context.Context, c payment.Charge) (entry, error) {
	var there entry
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		whole := context.WithoutCancel(ctx)
		err = s.pause(whole)
		if err == nil {
			there, err = s.answer(whole, c)
		}
	}()

	select {
	case <-done:
		return there, err
	case <-ctx.Done():
		return entry{}, payment.ErrProcessorTimeout
	}
}

// answer returns the ledger's entry of a charge, and enters it if the key has none. For a charge with OnlyRepeat, and
// for the card that makes the processor fail, it only reads.
func (s *Simulator) answer(ctx context.Context, c payment.Charge) (there entry, err error) {
	fails := c.Card.Number.Reveal() == cardFault
	if c.OnlyRepeat || fails {
		there, err = find(ctx, s.options.Limits.DB, c.Key)
	} else {
		there, err = s.ledger.Do(ctx, s.entryOf(c))
	}

	switch {
	case errors.Is(err, payment.ErrNotCharged) && fails:
		return entry{}, fmt.Errorf("%w: it answered with an error: %w", payment.ErrProcessorFault, err)
	case err != nil:
		return entry{}, fault(ctx, err)
	}
	return there, nil
}

func (s *Simulator) entryOf(c payment.Charge) entry {
	card, ride := s.fingerprints.Of(c.Card.Canonical()), s.fingerprints.Of(payment.CanonicalRide(c.RideID, c.RiderID))
	return entry{
		Key: c.Key, Amount: c.Amount, Currency: string(c.Currency), Card: card.Sum, Ride: ride.Sum, Version: card.Version,
		DeclineCode: decline(c.Card),
	}
}

// decline returns the issuer's reason to decline, "" for a card that is charged.
func decline(c payment.Card) string {
	switch c.Number.Reveal() {
	case cardDeclined:
		return "card_declined"
	case insufficientFunds:
		return "insufficient_funds"
	}
	return ""
}

// pause waits for the latency, without a connection. It returns payment.ErrProcessorTimeout when ctx ends first or the
// simulator is closed.
func (s *Simulator) pause(ctx context.Context) error {
	latency := s.options.Latency
	if s.options.LatencyMax > latency {
		latency += rand.N(s.options.LatencyMax - latency)
	}
	if latency <= 0 {
		return nil
	}

	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
	case <-s.closed:
	}
	return payment.ErrProcessorTimeout
}

// compare returns payment.ErrKeyConflict unless the entry is for the same values, the card among them if card is set.
// An entry that cannot be compared is a fault.
func (s *Simulator) compare(there entry, c payment.Charge, card bool) (err error) {
	same := there.Amount == c.Amount && there.Currency == string(c.Currency)
	if same {
		ride := payment.Fingerprint{Sum: there.Ride, Version: there.Version}
		same, err = s.fingerprints.Same(ride, payment.CanonicalRide(c.RideID, c.RiderID))
	}
	if same && card {
		same, err = s.fingerprints.Same(payment.Fingerprint{Sum: there.Card, Version: there.Version}, c.Card.Canonical())
	}

	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", payment.ErrProcessorFault, err)
	case !same:
		return fmt.Errorf("%w: it was charged with other values", payment.ErrKeyConflict)
	}
	return nil
}

// fault returns the processor's error for an error of the ledger. It keeps only the text of that: in the chain it would
// look like an error of the service's database. A lost answer is a timeout, because the charge may have been made.
func fault(ctx context.Context, err error) error {
	if errors.Is(err, payment.ErrNotCharged) {
		return err
	}
	e, ok := errors.AsType[*sqldb.Error](err)
	unclear := ctx.Err() != nil || errors.Is(err, groupcommit.ErrUnknown) ||
		ok && (e.Outcome == sqldb.Unknown || e.Reason == sqldb.Timeout)
	if unclear {
		return fmt.Errorf("%w: %s", payment.ErrProcessorTimeout, err.Error())
	}
	return fmt.Errorf("%w: %s", payment.ErrProcessorFault, err.Error())
}
