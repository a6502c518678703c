package processor

import (
	"context"
	"database/sql"
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

// decline is why the card's issuer declines; null for a card that is charged.
func decline(c payment.Card) sql.NullString {
	switch c.Number.Reveal() {
	case cardDeclined:
		return sql.NullString{String: "card_declined", Valid: true}
	case insufficientFunds:
		return sql.NullString{String: "insufficient_funds", Valid: true}
	}
	return sql.NullString{}
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

// call is enter with the caller's patience: whoever has a ledger that does not
// answer leaves when the time is up, as with another company's, and the charge may
// be made or not.
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

// entry is a row of the ledger.
type entry struct {
	Amount      int64          `db:"amount"`
	Currency    string         `db:"currency"`
	Fingerprint []byte         `db:"card_fingerprint"`
	Version     string         `db:"fingerprint_version"`
	DeclineCode sql.NullString `db:"decline_code"`
	Fresh       bool           `db:"fresh"` // entered by this very call
}

// enterSQL enters an answer once per key. The update changes nothing: it makes
// the statement wait for a rival with the same key, and return the row that is
// there, which decides, whatever this card would have got.
const enterSQL = `
INSERT INTO payments.processor_charges AS c (processor_key, amount, currency, card_fingerprint, fingerprint_version, decline_code)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (processor_key) DO UPDATE SET processor_key = c.processor_key
RETURNING amount, currency, card_fingerprint, fingerprint_version, decline_code, (xmax = 0) AS fresh`

const findSQL = `
SELECT amount, currency, card_fingerprint, fingerprint_version, decline_code, false AS fresh
  FROM payments.processor_charges
 WHERE processor_key = $1`

// enter enters the answer into the ledger, or finds the one that is there. For a
// charge that is only to be repeated, and for the card at which the processor
// fails, it only looks.
func (s *Simulator) enter(ctx context.Context, c payment.Charge, decline sql.NullString) (there entry, err error) {
	fails := c.Card.Number.Reveal() == cardFault
	if c.OnlyRepeat || fails {
		err = s.ledger.GetContext(ctx, &there, findSQL, c.Key)
	} else {
		card := s.fingerprints.OfCard(c.Card)
		err = s.ledger.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
			return conn.GetContext(ctx, &there, enterSQL, c.Key, c.Amount, string(c.Currency), card.Sum, card.Version, decline)
		})
	}
	switch {
	case errors.Is(err, sql.ErrNoRows) && fails:
		return entry{}, fmt.Errorf("%w: it answered with an error", payment.ErrProcessorFault)
	case errors.Is(err, sql.ErrNoRows):
		return entry{}, payment.ErrNotCharged
	case err != nil:
		return entry{}, fault(ctx, err)
	}
	sameCard, err := s.fingerprints.SameCard(payment.Fingerprint{Sum: there.Fingerprint, Version: there.Version}, c.Card)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", payment.ErrProcessorFault, err)
	}
	if there.Amount != c.Amount || there.Currency != string(c.Currency) || !sameCard {
		return entry{}, fmt.Errorf("%w: it was charged with other values", payment.ErrKeyConflict)
	}
	return there, nil
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
