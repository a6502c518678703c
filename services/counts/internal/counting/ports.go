package counting

import "context"

// CountValueRepository is the outbound port. countingtest.Exercise tests what a repository promises.
type CountValueRepository interface {
	// Change makes one atomic change, which has committed when it returns, and never writes a value that was read
	// before the count was locked. For a refused request it returns an error of this package, and with it an Answer that
	// says which change was refused.
	//
	// A change with a Key takes it in the same transaction. Every repeat gets the first answer, even a refusal, with
	// Answer.Replayed set, or ErrKeyConflict when the fingerprint differs. Concurrent requests with one key wait for
	// each other. Every other error leaves the key free. A key that was taken without a Caller is taken for all callers.
	Change(ctx context.Context, r Request) (Answer, error)
	// Find returns one count, or ErrNotFound.
	Find(ctx context.Context, id ItemID) (CountValue, error)
	// FindMany returns the counts of the ids, in any order, without absent ones, all from one snapshot.
	FindMany(ctx context.Context, ids []ItemID) ([]CountValue, error)
	// Page returns the first limit counts, in byte order of their ids, whose
	// id begins with prefix and is greater than after. Both are valid UTF-8
	// without control characters, or empty.
	Page(ctx context.Context, prefix, after string, limit int) ([]CountValue, error)
}
