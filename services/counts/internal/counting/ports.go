package counting

import "context"

// ExternalCountUpdateAPI is the inbound port of the systems that count: changes
// at high frequency. Each method returns the value right after each of its
// changes. All return ErrNotFound for an absent id, ErrKeyConflict for a key that
// belongs to another request, and all but Reset return ErrOverflow. The caller
// leaves the fingerprint of a key empty.
type ExternalCountUpdateAPI interface {
	// Increase adds by to the count.
	Increase(ctx context.Context, key Key, id ItemID, by Amount) (Result, error)
	// Decrease subtracts by from the count; a value may become negative.
	Decrease(ctx context.Context, key Key, id ItemID, by Amount) (Result, error)
	// Reset sets the count to zero.
	Reset(ctx context.Context, key Key, id ItemID) (Result, error)
	// Apply applies all changes of an update or none. A refusal is a
	// *ChangeError, or ErrTooManyChanges.
	Apply(ctx context.Context, update Update) (Result, error)
}

// InternalCountValueAPI is the inbound port of the system that manages which
// counters exist. Its changes return ErrKeyConflict like the external port;
// replayed says that this is the answer to an earlier request with the key.
type InternalCountValueAPI interface {
	// Initialize creates the count, or returns ErrExists.
	Initialize(ctx context.Context, key Key, id ItemID, initial int64) (v CountValue, replayed bool, err error)
	// Get returns one count, or ErrNotFound.
	Get(ctx context.Context, id ItemID) (CountValue, error)
	// GetMany returns the counts of 1 to MaxItemsPerRead ids in the order of
	// the ids, each once, without absent ones. It returns ErrTooManyItems for
	// any other number of ids.
	GetMany(ctx context.Context, ids []ItemID) ([]CountValue, error)
	// Page returns the first limit counts, in byte order of their ids, whose id
	// begins with prefix and is greater than after, and whether there are more.
	// It returns ErrInvalidLimit unless limit is 1 to MaxPageSize. Each page is
	// its own snapshot.
	Page(ctx context.Context, prefix, after string, limit int) (page []CountValue, more bool, err error)
	// Set sets the value of the count, or returns ErrNotFound.
	Set(ctx context.Context, key Key, id ItemID, value int64) (v CountValue, replayed bool, err error)
	// Delete deletes the count, or returns ErrNotFound.
	Delete(ctx context.Context, key Key, id ItemID) (replayed bool, err error)
}

// Observer is the outbound port to the metrics.
type Observer interface {
	// Replayed is called for each stored answer that is returned again.
	Replayed()
	// Conflict is called for each ErrKeyConflict.
	Conflict()
}

// CountValueRepository is the outbound port. countingtest.Exercise tests what a repository promises.
type CountValueRepository interface {
	// Change makes one atomic change, which has committed when it returns, and never writes a value that was read
	// before the count was locked. For a refused request it returns an error of this package: see Answer.Err.
	//
	// A change with a Key takes it in the same transaction. Every repeat gets the first answer, even a refusal, with
	// Answer.Replayed set, or ErrKeyConflict when the fingerprint differs. Concurrent requests with one key wait for
	// each other. Every other error leaves the key free. A key that was taken without a Caller is taken for all callers.
	Change(ctx context.Context, r Request) (Answer, error)
	// Find returns one count, or ErrNotFound.
	Find(ctx context.Context, id ItemID) (CountValue, error)
	// FindMany returns the counts of distinct ids, in any order, without absent
	// ones, all from one snapshot.
	FindMany(ctx context.Context, ids []ItemID) ([]CountValue, error)
	// Page returns the first limit counts, in byte order of their ids, whose
	// id begins with prefix and is greater than after. Both are valid UTF-8
	// without control characters, or empty.
	Page(ctx context.Context, prefix, after string, limit int) ([]CountValue, error)
}
