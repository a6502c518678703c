package payment

import (
	"context"
	"time"
)

// PayAPI pays for rides. It is an inbound port.
type PayAPI interface {
	// Pay charges a ride once per key and returns the one answer to it. It fails
	// with ErrKeyConflict, ErrProcessing, ErrProcessorFault, ErrProcessorTimeout,
	// ErrOutcomeUnknown, ErrForeignFingerprint, an *InvalidError, or an error of
	// the repository's technology. After each of them the same key may be sent again.
	Pay(ctx context.Context, key Key, r Request) (Answer, error)
}

// LookupAPI reads payments. It is an inbound port.
type LookupAPI interface {
	// Payment returns one payment, or ErrNotFound.
	Payment(ctx context.Context, id ID) (Payment, error)
	// PaymentsOfRide returns up to limit payments of a ride, newest first, and
	// the position after the last of them; nil when there are no more. after is
	// such a position, or nil for the first page. The limit is 1 to MaxPageSize.
	PaymentsOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, *Position, error)
}

// Claim asks for a key.
type Claim struct {
	Key         Key
	Fingerprint Fingerprint
	// TTL is how long the record lives from the claim on.
	TTL time.Duration
}

// Claimed describes a key that the caller has claimed.
type Claimed struct {
	// Earlier is how many payments are stored under the key, all of them expired.
	Earlier int
	// Now is the database's time.
	Now time.Time
}

// Settlement holds a payment that was charged or declined, to be stored.
type Settlement struct {
	Payment Payment
	// ProcessorKey is the key that the processor charged under; no two payments
	// share one.
	ProcessorKey string
}

// ChargeFunc charges the card for a request that owns its key.
type ChargeFunc func(ctx context.Context, c Claimed) (Settlement, error)

// Repository stores payments and idempotency records. It is an outbound port; the suite
// paymenttest.Exercise tests its implementations.
type Repository interface {
	// Settle returns the record of the claim's key. When the key is absent or
	// expired, the caller owns it: Settle calls charge, and stores the payment that
	// it returns together with the receipt, all or nothing; fresh is then true. Of
	// concurrent callers of one key one owns it and the others wait for it, up to
	// the store's own bound, then they get ErrProcessing or the error of the queue
	// that they waited in. An error of charge is returned as it is, stores nothing,
	// and leaves the key free.
	//
	// Settle may call charge more than once, because it runs a transaction that lost
	// against another one again. An effect of charge outside the transaction must
	// therefore happen once only.
	Settle(ctx context.Context, c Claim, charge ChargeFunc) (r Record, fresh bool, err error)
	// Find returns one payment, or ErrNotFound.
	Find(ctx context.Context, id ID) (Payment, error)
	// FindOfRide returns up to limit payments of a ride that come after the
	// position, newest first; nil begins with the newest.
	FindOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, error)
	// DeleteExpired removes up to limit expired records, none that is live or
	// locked by another transaction, and returns how many.
	DeleteExpired(ctx context.Context, limit int) (int, error)
}

// Charge asks the processor to charge a card.
type Charge struct {
	// Key makes the charge happen once: the same key with the same values gets the
	// same result, with other values ErrKeyConflict.
	Key      string
	RideID   RideID
	RiderID  string
	Amount   int64
	Currency Currency
	Card     Card
	// OnlyRepeat asks for the answer that the key has already, and for nothing
	// new: ErrNotCharged when it has none.
	OnlyRepeat bool
}

// Result holds the processor's definitive answer.
type Result struct {
	// DeclineCode is the issuer's reason; empty when the card was charged.
	DeclineCode string
}

// Processor charges cards. It is the outbound port to the company that moves the money.
type Processor interface {
	// Charge charges a card at most once per Charge.Key. An error is
	// ErrKeyConflict, ErrNotCharged, ErrProcessorFault or ErrProcessorTimeout; the
	// latter two leave open whether the card was charged, unless the error is also
	// ErrNotCharged. A definitive result, a
	// decline too, stays the result of its key: another ride, rider or card under the
	// same key is a conflict, whatever it would have got. The security code is not
	// compared.
	Charge(ctx context.Context, c Charge) (Result, error)
	// Find returns the definitive result that Charge.Key has already, a decline too, and
	// charges nothing. Charge.Card is not set and not compared. An error is ErrNotCharged
	// when the key has no result, though a charge that is on its way may still give it one;
	// ErrKeyConflict when it has that of another ride, rider, amount or currency;
	// ErrProcessorFault or ErrProcessorTimeout when the processor did not say.
	Find(ctx context.Context, c Charge) (Result, error)
}

// Observer counts what happens.
type Observer interface {
	// Settled is called for each payment that was stored.
	Settled(status Status)
	// Replayed is called for each stored answer that was returned again.
	Replayed()
	// Conflict is called for each ErrKeyConflict.
	Conflict()
}
