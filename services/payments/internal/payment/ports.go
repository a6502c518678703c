package payment

import (
	"context"
	"time"
)

// PayAPI is the inbound port of whoever has a ride paid.
type PayAPI interface {
	// Pay charges a ride once per key and returns the one answer to it. It fails
	// with ErrKeyConflict, ErrProcessing, ErrBusy, ErrProcessorFault,
	// ErrProcessorTimeout, ErrOutcomeUnknown, ErrForeignFingerprint, or an
	// *InvalidError. After each of them the same key may be sent again.
	Pay(ctx context.Context, key Key, r Request) (Answer, error)
}

// LookupAPI is the inbound port of whoever looks payments up.
type LookupAPI interface {
	// Payment returns one payment, or ErrNotFound.
	Payment(ctx context.Context, id ID) (Payment, error)
	// PaymentsOfRide returns up to limit payments of a ride, newest first, and
	// the position after the last of them; nil when there are no more. after is
	// such a position, or nil for the first page. The limit is 1 to MaxPageSize.
	PaymentsOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, *Position, error)
}

// Claim is a request's claim to its key.
type Claim struct {
	Key         Key
	Fingerprint Fingerprint
	// TTL is how long the record lives from the claim on.
	TTL time.Duration
}

// Turn is what whoever owns the key is told.
type Turn struct {
	// Earlier is how many payments are stored under the key, expired ones.
	Earlier int
	// Now is the database's time.
	Now time.Time
}

// Settlement is what is stored when a key's turn has come to its end.
type Settlement struct {
	Payment Payment
	// ProcessorKey is what the processor charged by; no two payments share one.
	ProcessorKey string
	Response     Response
}

// Repository is the outbound port to the store. What a repository must keep is
// the suite paymenttest.Exercise.
type Repository interface {
	// Settle returns the record of the claim's key. When the key is absent or
	// expired, the caller owns it: settle is called, and what it returns is stored
	// together with the payment, all or nothing; fresh is then true. Of concurrent
	// callers of one key one owns it and the others wait for it, up to the
	// store's own bound, then they get ErrProcessing. An error of settle is
	// returned as it is, stores nothing, and leaves the key free.
	//
	// settle may be called more than once: a transaction that lost against
	// another one is run again. It must therefore do nothing outside that it does
	// not do once only.
	Settle(ctx context.Context, c Claim, settle func(context.Context, Turn) (Settlement, error)) (r Record, fresh bool, err error)
	// Find returns one payment, or ErrNotFound.
	Find(ctx context.Context, id ID) (Payment, error)
	// FindOfRide returns up to limit payments of a ride that come after the
	// position, newest first; nil begins with the newest.
	FindOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, error)
	// DeleteExpired removes up to limit expired records, none that is live or in
	// somebody's hands, and returns how many.
	DeleteExpired(ctx context.Context, limit int) (int, error)
}

// Charge is what the processor is asked for.
type Charge struct {
	// Key is what it charges once by: the same key with the same values gets the
	// same result, with other values ErrKeyConflict.
	Key      string
	Amount   int64
	Currency Currency
	Card     Card
	// OnlyRepeat asks for the answer that the key has already, and for nothing
	// new: ErrNotCharged when it has none.
	OnlyRepeat bool
}

// Result is the processor's definitive answer.
type Result struct {
	// DeclineCode says why the issuer declined; empty when the card was charged.
	DeclineCode string
}

// Processor is the outbound port to whoever moves the money. It is narrow on
// purpose: a real one, or a two-phase one, fits behind it.
type Processor interface {
	// Charge charges a card at most once per Charge.Key. An error is
	// ErrKeyConflict, ErrNotCharged, ErrProcessorFault or ErrProcessorTimeout; the
	// latter two leave open whether the card was charged. What a key was answered
	// definitively, a decline too, it is answered for ever: another card under the
	// same key is a conflict, whatever that card would have got.
	Charge(ctx context.Context, c Charge) (Result, error)
}

// Renderer writes the answer to a payment as it will be sent and stored.
type Renderer func(Payment) (Response, error)

// Observer is told what happens, to be counted.
type Observer interface {
	// Settled is called for each payment that was stored.
	Settled(status Status)
	// Replayed is called for each answer that was given again.
	Replayed()
	// Conflict is called for each ErrKeyConflict.
	Conflict()
}
