package attempt

import (
	"context"
	"io"
	"iter"
	"time"
)

// Repository stores lists. Each method is one atomic change that has committed when
// it returns, and gets arguments that Service has checked. The counts are of the
// items that were really changed; a claim that is not "" limits a change to the
// items that it holds. Its contract is the suite attempttest.Exercise.
type Repository interface {
	Claimer

	// Get returns the attempts of an item, or ErrNotFound.
	Get(ctx context.Context, list List, item Item) (int64, error)
	// Exists reports whether the list has an item.
	Exists(ctx context.Context, list List) (bool, error)
	// Page returns up to count entries after a position, in byte order; "" is the
	// position before the first. It returns ErrMemory when other large answers hold the
	// memory of the replica, as Claim does.
	Page(ctx context.Context, list List, after string, count int) (Entries, error)
	// Count counts the list's items in time proportional to their number.
	Count(ctx context.Context, list List) (Counts, error)

	// Apply changes one item.
	Apply(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error)
	// ApplyBatch changes the items of a batch that fits into memory. A spooled one waits
	// its turn for as long as ctx lasts, and is loaded only then.
	ApplyBatch(ctx context.Context, change Change, list List, items Batch, claim Claim) (int64, error)
	// ApplyStaged changes the items of a batch of any length. parts yields them part by
	// part, each valid until the next, from the first on each time that it is ranged
	// over; ApplyStaged returns an error of it, having changed nothing. It returns
	// ErrBusy or ErrConflict when the batch could not be applied.
	ApplyStaged(
		ctx context.Context, change Change, list List, parts iter.Seq2[*Items, error], claim Claim,
	) (int64, error)
	// Abandon deletes the items with at least that many attempts.
	Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error)
}

// Claimer leases items to workers.
type Claimer interface {
	// Claim takes up to count free items in byte order, for the time of the lease. It
	// claims none when it returns ErrMemory.
	Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error)
	// Extend replaces the lease of the items that the claim still holds by one that
	// begins now.
	Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error)
	// Release frees the items that the claim still holds.
	Release(ctx context.Context, list List, claim Claim) (int64, error)
}

// Batch is a batch that fits into memory: *Items, or one that is spooled.
type Batch interface {
	// Len returns the number of items, repeated ones included.
	Len() int
	// Spooled reports whether the items are in a file.
	Spooled() bool
	// Load returns the items, read from the file each time if they are in one.
	Load() (*Items, error)
}

// Spool keeps the items of long batches until all of them have arrived.
type Spool interface {
	// Create returns an empty file, or an error.
	Create() (File, error)
	// Free returns how many bytes all files together may still get.
	Free() int64
}

// File keeps what was written to it until Close. Write returns ErrSpoolFull when there
// is no room left.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
}
