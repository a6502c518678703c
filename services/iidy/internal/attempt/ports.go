package attempt

import (
	"context"
	"io"
	"iter"
	"time"
)

// Repository stores lists. Each method is one atomic change that has committed when
// it returns, and gets arguments that Service has checked. It counts only items that
// it changed. A claim that is not "" limits a change to the items that it holds. The
// suite attempttest.Exercise is the contract.
type Repository interface {
	// Get returns the attempts of an item, or ErrNotFound.
	Get(ctx context.Context, list List, item Item) (int64, error)
	// Exists reports whether the list has an item.
	Exists(ctx context.Context, list List) (bool, error)
	// Page returns up to count entries after a position, in byte order; "" is the
	// position before the first. Like Claim it returns ErrMemory when other large answers
	// use up the replica's memory.
	Page(ctx context.Context, list List, after string, count int) (Entries, error)
	// Count counts the list's items in time proportional to their number.
	Count(ctx context.Context, list List) (Counts, error)

	// Apply changes one item.
	Apply(ctx context.Context, change Change, list List, item Item, claim Claim) (int64, error)
	// ApplyBatch changes the items of a batch that fits into memory. A spooled batch waits
	// its turn until ctx ends, and is loaded only then.
	ApplyBatch(ctx context.Context, change Change, list List, items Batch, claim Claim) (int64, error)
	// ApplyStaged changes the items of a batch of any length. parts yields them part by
	// part, each valid until the next. Each range over parts begins with the first.
	// ApplyStaged returns an error of parts and then changes nothing, or ErrBusy or
	// ErrConflict when the batch could not be applied.
	ApplyStaged(
		ctx context.Context, change Change, list List, parts iter.Seq2[*Items, error], claim Claim,
	) (int64, error)
	// Abandon deletes the items with at least that many attempts.
	Abandon(ctx context.Context, list List, attempts int64, claim Claim) (int64, error)

	// Claim takes up to count free items in byte order, for the time of the lease. It
	// claims none when it returns ErrMemory.
	Claim(ctx context.Context, list List, count int, lease time.Duration) (Lease, error)
	// Extend replaces the lease of the items that the claim still holds; the new one
	// begins now.
	Extend(ctx context.Context, list List, claim Claim, lease time.Duration) (int64, error)
	// Release frees the items that the claim still holds.
	Release(ctx context.Context, list List, claim Claim) (int64, error)
}

// Batch is a batch that fits into memory: *Items, or a spooled one.
type Batch interface {
	// Len returns the number of items, repeated ones included.
	Len() int
	// Spooled reports whether the items are in a file.
	Spooled() bool
	// Load returns the items. Each call reads the file of a spooled batch.
	Load() (*Items, error)
}

// Spool keeps the items of long batches until all of them have arrived.
type Spool interface {
	// Create returns an empty file, or an error.
	Create() (File, error)
	// Free returns the number of bytes that all files together may still grow by.
	Free() int64
}

// File keeps its content until Close. Write returns ErrSpoolFull when there is no room
// left.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
}
