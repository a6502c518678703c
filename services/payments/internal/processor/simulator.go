package processor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The cards that do not simply succeed.
const (
	cardDeclined      = "4000000000000002"
	insufficientFunds = "4000000000009995"
	cardFault         = "4000000000000119"
	cardTimeout       = "4000000000000259"
)

// Options configure the simulator.
type Options struct {
	// Latency is how long it waits before it charges.
	Latency time.Duration
	// Timeout bounds Charge. After it the charge may have been made or not.
	Timeout time.Duration
	// Operations makes a span of each charge; it may be nil.
	Operations *telemetry.Operations
}

// Simulator implements payment.Processor on a durable ledger.
type Simulator struct {
	ledger       *sqldb.DB
	fingerprints *payment.Fingerprints
	options      Options
}

var _ payment.Processor = (*Simulator)(nil)

// New returns a simulator with its ledger in a pool that payments do not use.
func New(ledger *sqldb.DB, fingerprints *payment.Fingerprints, o Options) *Simulator {
	return &Simulator{ledger: ledger, fingerprints: fingerprints, options: o}
}

// Charge implements payment.Processor.
func (s *Simulator) Charge(ctx context.Context, c payment.Charge) (r payment.Result, err error) {
	ctx, end := s.options.Operations.Start(ctx, "processor.charge", trace.WithSpanKind(trace.SpanKindClient))
	defer end(&err)
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	failpoint.Hit(failpoint.Charging)
	if err := pause(ctx, s.options.Latency); err != nil {
		return payment.Result{}, err
	}
	there, err := s.call(ctx, c, decline(c.Card))
	if err != nil {
		return payment.Result{}, err
	}
	if there.DeclineCode.Valid {
		return payment.Result{DeclineCode: there.DeclineCode.String}, nil
	}
	failpoint.Hit(failpoint.Charged)
	if there.Fresh && c.Card.Number.Reveal() == cardTimeout {
		<-ctx.Done()
		return payment.Result{}, payment.ErrProcessorTimeout
	}
	return payment.Result{}, nil
}

// Find implements payment.Processor.
func (s *Simulator) Find(ctx context.Context, c payment.Charge) (payment.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	var there entry
	err := s.ledger.GetUnqueued(ctx, &there, findSQL, c.Key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return payment.Result{}, payment.ErrNotCharged
	case err != nil:
		return payment.Result{}, fault(ctx, err)
	}
	same, err := s.sameRide(there, c)
	switch {
	case err != nil:
		return payment.Result{}, fmt.Errorf("%w: %w", payment.ErrProcessorFault, err)
	case !same:
		return payment.Result{}, fmt.Errorf("%w: it was charged with other values", payment.ErrKeyConflict)
	}
	return payment.Result{DeclineCode: there.DeclineCode.String}, nil
}

// decline returns the issuer's reason to decline; null for a card that is charged.
func decline(c payment.Card) sql.NullString {
	switch c.Number.Reveal() {
	case cardDeclined:
		return sql.NullString{String: "card_declined", Valid: true}
	case insufficientFunds:
		return sql.NullString{String: "insufficient_funds", Valid: true}
	}
	return sql.NullString{}
}

// pause waits for the latency. It returns payment.ErrProcessorTimeout when ctx ends first.
func pause(ctx context.Context, latency time.Duration) error {
	if latency <= 0 {
		return nil
	}
	select {
	case <-time.After(latency):
		return nil
	case <-ctx.Done():
		return payment.ErrProcessorTimeout
	}
}

// call calls enter and returns payment.ErrProcessorTimeout when ctx ends before the
// ledger answers. The charge may then be made or not.
func (s *Simulator) call(ctx context.Context, c payment.Charge, decline sql.NullString) (entry, error) {
	type outcome struct {
		there entry
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		there, err := s.enter(ctx, c, decline)
		done <- outcome{there, err}
	}()
	select {
	case o := <-done:
		return o.there, o.err
	case <-ctx.Done():
		return entry{}, payment.ErrProcessorTimeout
	}
}

// entry holds a row of the ledger.
type entry struct {
	Amount      int64          `db:"amount"`
	Currency    string         `db:"currency"`
	Card        []byte         `db:"card_fingerprint"`
	Ride        []byte         `db:"ride_fingerprint"`    // nil: of a release that did not compare rides
	Version     string         `db:"fingerprint_version"` // of both
	DeclineCode sql.NullString `db:"decline_code"`
	Fresh       bool           `db:"fresh"` // entered by this call
}

// enterSQL enters an answer once per key. The update changes nothing: it makes the
// statement wait for another transaction with the same key, and return the row that is
// there.
const enterSQL = `
INSERT INTO payments.processor_charges AS c
       (processor_key, amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (processor_key) DO UPDATE SET processor_key = c.processor_key
RETURNING amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code,
          (xmax = 0) AS fresh`

const findSQL = `
SELECT amount, currency, card_fingerprint, ride_fingerprint, fingerprint_version, decline_code, false AS fresh
  FROM payments.processor_charges
 WHERE processor_key = $1`

// enter enters the answer into the ledger, or finds the one that is there. For a charge
// with OnlyRepeat, and for the card at which the processor fails, it only looks.
func (s *Simulator) enter(ctx context.Context, c payment.Charge, decline sql.NullString) (there entry, err error) {
	fails := c.Card.Number.Reveal() == cardFault
	if c.OnlyRepeat || fails {
		err = s.ledger.GetUnqueued(ctx, &there, findSQL, c.Key) // its payment holds a row
	} else {
		card, ride := s.fingerprints.OfCard(c.Card), s.fingerprints.OfRide(c.RideID, c.RiderID)
		err = s.ledger.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &there, enterSQL,
				c.Key, c.Amount, string(c.Currency), card.Sum, ride.Sum, card.Version, decline)
		})
	}
	switch {
	case errors.Is(err, sql.ErrNoRows) && fails:
		return entry{}, fmt.Errorf("%w: it answered with an error", payment.ErrProcessorFault)
	case errors.Is(err, sql.ErrNoRows):
		return entry{}, payment.ErrNotCharged
	case err != nil:
		return entry{}, fault(ctx, err)
	case there.Fresh:
		return there, nil
	}
	same, err := s.same(there, c)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", payment.ErrProcessorFault, err)
	}
	if !same {
		return entry{}, fmt.Errorf("%w: it was charged with other values", payment.ErrKeyConflict)
	}
	return there, nil
}

// same reports whether the entry was made for the same values. It returns
// payment.ErrForeignFingerprint when it cannot compare them.
func (s *Simulator) same(there entry, c payment.Charge) (bool, error) {
	same, err := s.sameRide(there, c)
	if err != nil || !same {
		return same, err
	}
	return s.fingerprints.SameCard(payment.Fingerprint{Sum: there.Card, Version: there.Version}, c.Card)
}

// sameRide does what same does, without the card.
func (s *Simulator) sameRide(there entry, c payment.Charge) (bool, error) {
	if there.Amount != c.Amount || there.Currency != string(c.Currency) {
		return false, nil
	}
	if there.Ride == nil {
		return true, nil
	}
	return s.fingerprints.SameRide(payment.Fingerprint{Sum: there.Ride, Version: there.Version}, c.RideID, c.RiderID)
}

// fault returns the processor's error for an error of the ledger, which it keeps as text
// alone: in the chain it would be taken for an error of the payment's own transaction.
func fault(ctx context.Context, err error) error {
	var e *sqldb.Error
	if ctx.Err() != nil || errors.As(err, &e) && e.Reason == sqldb.Timeout {
		return fmt.Errorf("%w: %s", payment.ErrProcessorTimeout, err.Error())
	}
	return fmt.Errorf("%w: %s", payment.ErrProcessorFault, err.Error())
}
