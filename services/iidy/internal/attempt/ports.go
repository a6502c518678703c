package attempt

import (
	"context"
	"time"
)

// Source gives the items of a batch one after the other, each checked by
// CheckItem and valid until the next call; io.EOF after the last. Any other error
// fails the batch whole.
type Source interface {
	Next() ([]byte, error)
}

// Lists is the inbound port. What is counted is what was really changed.
type Lists interface {
	// Get returns the attempts of an item, or ErrNotFound.
	Get(ctx context.Context, list List, item Item) (int64, error)
	// Exists tells whether the list has an item.
	Exists(ctx context.Context, list List) (bool, error)
	// One changes one item; claim limits Increment and Delete to what it holds.
	One(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error)
	// Batch changes all items of a source or none.
	Batch(ctx context.Context, change Change, list List, source Source, claim Claim) (int64, error)
	// Page returns up to count entries (0 to MaxPage) after an item, in the order
	// of their bytes; after "" it is the first page. ErrInvalidCount.
	Page(ctx context.Context, list List, after string, count int) ([]Entry, error)
	// Progress counts the list; it takes time in proportion to its items.
	Progress(ctx context.Context, list List) (Progress, error)
	// Claim takes up to count (1 to MaxPage) free items, in the order of their
	// bytes, for as long as the lease (MinLease to MaxLease). ErrInvalidCount,
	// ErrInvalidLease.
	Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error)
	// Extend gives what the claim still holds a new lease, from now.
	Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error)
	// Release makes what the claim still holds free.
	Release(ctx context.Context, list List, claim Claim) (int64, error)
	// Abandon deletes the items with so many attempts or more (at least 1), of
	// these only what the claim holds where there is one. ErrInvalidAttempts.
	Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error)
}

// Repository is the outbound port. Each method is one atomic change that has
// committed when it returns. What a repository must keep is the suite
// attempttest.Exercise. Arguments are within their bounds.
type Repository interface {
	Get(ctx context.Context, list List, item Item) (int64, error)
	Exists(ctx context.Context, list List) (bool, error)
	One(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error)
	// Many changes the items of a batch that fits into memory.
	Many(ctx context.Context, change Change, list List, items *Items, claim Claim) (int64, error)
	// Stage changes the items of a batch of any length. next gives them part by
	// part, each valid until the next call; io.EOF after the last. Its error is
	// returned, and nothing is changed.
	Stage(ctx context.Context, change Change, list List, next func() (*Items, error), claim Claim) (int64, error)
	Page(ctx context.Context, list List, after string, count int) ([]Entry, error)
	Progress(ctx context.Context, list List) (Progress, error)
	Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error)
	Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error)
	Release(ctx context.Context, list List, claim Claim) (int64, error)
	Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error)
}
