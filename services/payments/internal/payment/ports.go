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

// Terms are what a payment needs and may be stored: neither card number nor security code.
type Terms struct {
	RideID   RideID
	RiderID  string
	Amount   int64 // minor units
	Currency Currency
	Card     CardFace
}

// ClaimID names one claim of a key, a UUID. It is the fence of the claim's holder.
type ClaimID string

// Claim asks for a key.
type Claim struct {
	Key         Key
	ID          ClaimID
	Fingerprint Fingerprint
	// Same reports whether a stored fingerprint is of this request.
	Same  func(Fingerprint) (bool, error)
	Terms Terms
	// TTL is how long the record lives from the claim on, Lease how long the claim does.
	TTL, Lease time.Duration
}

// Held describes a key that the caller holds, until its lease ends.
type Held struct {
	// Key is the key of the record: of no caller where the claim of one was taken over.
	Key     Key
	ClaimID ClaimID
	// ProcessorKey is the key that the processor charges under; no two payments share one.
	ProcessorKey string
	Terms        Terms
	// Now is the database's time of the claim.
	Now time.Time
	// TakenOver says that an earlier holder may have asked for the charge, which may still
	// be on its way.
	TakenOver bool
}

// Claimed is the answer to a Claim: the key's record, or the key itself.
type Claimed struct {
	// Record is the stored answer to the request; nil when the caller holds the key.
	Record *Record
	Held   Held
	// Leave lets the requests of this replica that wait for the key go on. The holder calls it
	// once, when it is done.
	Leave func()
}

// Overdue describes a key whose claim ran out, and which the caller holds now.
type Overdue struct {
	Held

	// Expired says that the record's life is over.
	Expired bool
}

// Repository stores payments and idempotency records. It is an outbound port; the suite
// paymenttest.Exercise tests its implementations.
type Repository interface {
	// Claim claims a key that is absent or expired, or whose claim ran out and was of the
	// same request. The claim is stored when Claim returns. Otherwise it returns the
	// record of the same request, for which it waits up to the store's own bound while
	// another request holds the key; then ErrProcessing. It returns ErrKeyConflict for the
	// record or claim of another request, and the errors of Claim.Same.
	//
	// A live record or claim of the same Key.Value that was made without a caller is every
	// caller's that has none of its own.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Settle stores the payment and its receipt under the claim, all or nothing, and
	// returns the record. When the claim was taken over, fresh is false and the record is
	// that of the payment which was stored instead; ErrOutcomeUnknown when there is none
	// yet, or when it is not known what was stored.
	Settle(ctx context.Context, h Held, p Payment) (r Record, fresh bool, err error)
	// GiveBack ends a claim whose charge is in doubt: the same request may take the key
	// over at once. It does nothing when the claim was taken over.
	GiveBack(ctx context.Context, h Held) error
	// Drop removes a claim under which nothing was charged, unless it was taken over.
	Drop(ctx context.Context, h Held) error
	// Overdue takes over up to limit claims that ran out longer than after ago, none that
	// another transaction has locked. Of a claim that was given back before it leaves
	// longer and longer pauses.
	Overdue(ctx context.Context, after, lease time.Duration, limit int) ([]Overdue, error)
	// Find returns one payment, or ErrNotFound.
	Find(ctx context.Context, id ID) (Payment, error)
	// FindOfRide returns up to limit payments of a ride that come after the
	// position, newest first; nil begins with the newest.
	FindOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, error)
	// DeleteExpired removes up to limit expired records, none that is live, claimed or
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
	// Claimed is called when a request has claimed its key; the returned function is called when
	// the request has ended.
	Claimed() (ended func())
	// Settled is called for each payment that was stored.
	Settled(status Status)
	// Replayed is called for each stored answer that was returned again.
	Replayed()
	// Conflict is called for each ErrKeyConflict.
	Conflict()
}
