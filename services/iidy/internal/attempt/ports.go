package attempt

import (
	"context"
	"time"
)

// Source gives the items of a batch one after the other.
type Source interface {
	// Next returns an item that CheckItem accepts, valid until the next call;
	// io.EOF after the last. Any other error fails the batch whole.
	Next() ([]byte, error)
}

// Reader reads lists.
type Reader interface {
	// Get returns the attempts of an item, or ErrNotFound.
	Get(ctx context.Context, list List, item Item) (int64, error)
	// Exists tells whether the list has an item.
	Exists(ctx context.Context, list List) (bool, error)
	// Page returns up to count entries (0 to MaxPage) after an item, in the order
	// of their bytes; after "" it is the first page. ErrInvalidCount.
	Page(ctx context.Context, list List, after string, count int) ([]Entry, error)
	// Progress counts the list; it takes time in proportion to its items.
	Progress(ctx context.Context, list List) (Progress, error)
}

// Claimer hands items out. What is counted is what was really changed.
type Claimer interface {
	// Claim takes up to count (1 to MaxPage) free items, in the order of their
	// bytes, for as long as the lease (MinLease to MaxLease). ErrInvalidCount,
	// ErrInvalidLease.
	Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error)
	// Extend gives what the claim still holds a new lease, from now. ErrInvalidLease.
	Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error)
	// Release makes what the claim still holds free.
	Release(ctx context.Context, list List, claim Claim) (int64, error)
}

// Changer changes items. What is counted is what was really changed; a claim
// limits Increment, Delete and Abandon to what it holds.
type Changer interface {
	// One changes one item.
	One(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error)
	// Abandon deletes the items with so many attempts or more (at least 1).
	// ErrInvalidAttempts.
	Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error)
}

// Lists is the inbound port.
type Lists interface {
	Reader
	Claimer
	Changer
	// Batch changes all items of a source or none.
	Batch(ctx context.Context, change Change, list List, source Source, claim Claim) (int64, error)
}

// Repository is the outbound port. Each method is one atomic change that has
// committed when it returns, and is given arguments within their bounds. What a
// repository must keep is the suite attempttest.Exercise.
type Repository interface {
	Reader
	Claimer
	Changer
	// Many changes the items of a batch that fits into memory.
	Many(ctx context.Context, change Change, list List, items *Items, claim Claim) (int64, error)
	// Stage changes the items of a batch of any length. next gives them part by
	// part, each valid until the next call; io.EOF after the last. Its error is
	// returned, and nothing is changed. ErrBusy, ErrInTheWay.
	Stage(ctx context.Context, change Change, list List, next func() (*Items, error), claim Claim) (int64, error)
}
