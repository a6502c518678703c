package payment

import (
	"context"
	"time"
)

// Terms are the values of a payment that may be stored: neither card number nor security code.
type Terms struct {
	Fare

	Card CardFace
}

// ClaimID names one claim of a key, a UUID. It is the fence of the claim's holder.
type ClaimID string

// Claim asks for a key.
type Claim struct {
	Key         Key
	ID          ClaimID
	Fingerprint Fingerprint
	// Same reports whether a stored fingerprint was made of this request.
	Same  func(Fingerprint) (bool, error)
	Terms Terms
	// TTL is the lifetime of the record from the claim on, Lease the lifetime of the claim.
	TTL, Lease time.Duration
}

// Held describes a key that the caller holds, until its lease ends.
type Held struct {
	// Key is the key of the record, without a caller if a claim without a caller was taken over.
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
	// Leave wakes the requests of this replica that wait for the key. The holder must call it
	// once, when it is done.
	Leave func()
}

// Overdue describes a key whose claim ran out and that the caller holds now.
type Overdue struct {
	Held

	// Expired says that the record has expired.
	Expired bool
}

// Repository stores payments and idempotency records. It is an outbound port; the suite
// paymenttest.Exercise tests its implementations.
type Repository interface {
	// Claim claims a key that is absent or expired, or whose claim ran out and belongs to
	// the same request. The claim is stored when Claim returns. Otherwise Claim returns the
	// record of the same request. While another request holds the key, it waits for that
	// record up to the store's limit, and then returns ErrProcessing. It returns
	// ErrKeyConflict for the record or claim of another request, and the errors of
	// Claim.Same.
	//
	// A live record or claim of the same Key.Value without a caller belongs to every caller
	// that has no live record.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Settle stores the payment and its receipt under the claim, all or nothing, and
	// returns the record. If the claim was taken over, fresh is false and the record belongs
	// to the payment that was stored instead. Settle returns ErrOutcomeUnknown if there is
	// none yet, or if it is not known what was stored.
	Settle(ctx context.Context, h Held, p Payment) (r Record, fresh bool, err error)
	// GiveBack ends a claim whose charge is in doubt: the same request may take the key
	// over at once. It does nothing if the claim was taken over.
	GiveBack(ctx context.Context, h Held) error
	// Drop removes a claim under which nothing was charged, unless it was taken over.
	Drop(ctx context.Context, h Held) error
	// Overdue takes over up to limit claims that ran out longer than after ago. It skips
	// claims that another transaction has locked, and waits longer and longer for a claim
	// that is given back again and again.
	Overdue(ctx context.Context, after, lease time.Duration, limit int) ([]Overdue, error)
	// Find returns one payment, or ErrNotFound.
	Find(ctx context.Context, id ID) (Payment, error)
	// FindOfRide returns up to limit payments of a ride after the position, newest first;
	// nil begins with the newest.
	FindOfRide(ctx context.Context, ride RideID, after *Position, limit int) ([]Payment, error)
	// DeleteExpired removes up to limit expired records and returns their number. It skips
	// records that are claimed, or locked by another transaction.
	DeleteExpired(ctx context.Context, limit int) (int, error)
}

// Charge asks the processor to charge a card.
type Charge struct {
	Fare

	// Key makes the charge happen once: the same key gets the same result for the same
	// values, and ErrKeyConflict for other values.
	Key  string
	Card Card
	// OnlyRepeat asks for the existing answer of the key and makes no new charge:
	// ErrNotCharged if there is none.
	OnlyRepeat bool
}

// Result holds the processor's definitive answer.
type Result struct {
	// DeclineCode is the issuer's reason; empty if the card was charged.
	DeclineCode string
}

// Processor charges cards. It is the outbound port to the company that moves the money.
type Processor interface {
	// Charge charges a card at most once per Charge.Key. An error is ErrKeyConflict,
	// ErrNotCharged, ErrProcessorFault or ErrProcessorTimeout; after the latter two the
	// card may have been charged, unless the error is also ErrNotCharged. A definitive
	// result, even a decline, stays the result of its key: another ride, rider or card
	// under the same key is a conflict, whatever its own result would be. The security
	// code is not compared.
	Charge(ctx context.Context, c Charge) (Result, error)
	// Find returns the definitive result of Charge.Key, even a decline, and charges
	// nothing. Charge.Card is not set and not compared. The error is ErrNotCharged if the
	// key has no result, although a charge on its way may still give it one;
	// ErrKeyConflict if the result belongs to another ride, rider, amount or currency;
	// ErrProcessorFault or ErrProcessorTimeout if the processor did not answer.
	Find(ctx context.Context, c Charge) (Result, error)
}
