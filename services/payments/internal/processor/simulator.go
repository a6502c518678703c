package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/failpoint"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// The cards that make the simulator do something else than succeed.
const (
	cardDeclined      = "4000000000000002"
	insufficientFunds = "4000000000009995"
	cardFault         = "4000000000000119"
	cardTimeout       = "4000000000000259"
)

// Options say how the simulator behaves.
type Options struct {
	// Latency is how long it thinks before it charges.
	Latency time.Duration
	// Timeout is how long the caller waits for it. Afterwards the charge may have
	// been made or not.
	Timeout time.Duration
}

// Simulator is a payment.Processor with a ledger that survives its death.
type Simulator struct {
	ledger       *sqldb.DB
	fingerprints *payment.Fingerprints
	options      Options
}

var _ payment.Processor = (*Simulator)(nil)

// New returns a simulator that keeps its ledger in a pool of its own.
func New(ledger *sqldb.DB, fingerprints *payment.Fingerprints, o Options) *Simulator {
	return &Simulator{ledger: ledger, fingerprints: fingerprints, options: o}
}

// Charge implements payment.Processor.
func (s *Simulator) Charge(ctx context.Context, c payment.Charge) (payment.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	failpoint.Hit(failpoint.Charging)
	if err := think(ctx, s.options.Latency); err != nil {
		return payment.Result{}, err
	}
	switch c.Card.Number.Reveal() {
	case cardDeclined:
		return payment.Result{DeclineCode: "card_declined"}, nil
	case insufficientFunds:
		return payment.Result{DeclineCode: "insufficient_funds"}, nil
	case cardFault:
		return payment.Result{}, fmt.Errorf("%w: it answered with an error", payment.ErrProcessorFault)
	}
	fresh, err := s.call(ctx, c)
	if err != nil {
		return payment.Result{}, err
	}
	failpoint.Hit(failpoint.Charged)
	if fresh && c.Card.Number.Reveal() == cardTimeout {
		<-ctx.Done()
		return payment.Result{}, payment.ErrProcessorTimeout
	}
	return payment.Result{}, nil
}

// think passes the latency.
func think(ctx context.Context, latency time.Duration) error {
	if latency <= 0 {
		return nil
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return payment.ErrProcessorTimeout
	}
}

// call is charge with the caller's patience: whoever has a ledger that does not
// answer leaves when the time is up, as with another company's, and the charge may
// be made or not.
func (s *Simulator) call(ctx context.Context, c payment.Charge) (fresh bool, err error) {
	type outcome struct {
		fresh bool
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		fresh, err := s.charge(ctx, c)
		done <- outcome{fresh, err}
	}()
	select {
	case o := <-done:
		return o.fresh, o.err
	case <-ctx.Done():
		return false, payment.ErrProcessorTimeout
	}
}

// chargeSQL enters a charge once per key. The update changes nothing: it makes
// the statement wait for a rival with the same key, and return the row that is
// there.
const chargeSQL = `
INSERT INTO payments.processor_charges AS c (processor_key, amount, currency, card_fingerprint, fingerprint_version)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (processor_key) DO UPDATE SET processor_key = c.processor_key
RETURNING amount, currency, card_fingerprint, fingerprint_version, (xmax = 0) AS fresh`

// charge enters the charge into the ledger, or finds it there.
func (s *Simulator) charge(ctx context.Context, c payment.Charge) (fresh bool, err error) {
	var there struct {
		Amount      int64  `db:"amount"`
		Currency    string `db:"currency"`
		Fingerprint []byte `db:"card_fingerprint"`
		Version     string `db:"fingerprint_version"`
		Fresh       bool   `db:"fresh"`
	}
	card := s.fingerprints.OfCard(c.Card)
	err = s.ledger.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		return conn.GetContext(ctx, &there, chargeSQL, c.Key, c.Amount, string(c.Currency), card.Sum, card.Version)
	})
	if err != nil {
		return false, fault(ctx, err)
	}
	sameCard, err := s.fingerprints.SameCard(payment.Fingerprint{Sum: there.Fingerprint, Version: there.Version}, c.Card)
	if err != nil {
		return false, fmt.Errorf("%w: %w", payment.ErrProcessorFault, err)
	}
	if there.Amount != c.Amount || there.Currency != string(c.Currency) || !sameCard {
		return false, fmt.Errorf("%w: it was charged with other values", payment.ErrKeyConflict)
	}
	return there.Fresh, nil
}

// fault is what a caller sees of the ledger's trouble. The database's error is
// kept as text alone: found in the chain, it would be taken for an error of the
// payment's own transaction, and "not applied" there says nothing about here.
func fault(ctx context.Context, err error) error {
	var e *sqldb.Error
	if ctx.Err() != nil || errors.As(err, &e) && e.Reason == sqldb.Timeout {
		return fmt.Errorf("%w: %s", payment.ErrProcessorTimeout, err.Error())
	}
	return fmt.Errorf("%w: %s", payment.ErrProcessorFault, err.Error())
}
