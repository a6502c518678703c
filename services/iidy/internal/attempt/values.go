package attempt

import "time"

const (
	// MaxPage bounds the entries of one page and of one claim.
	MaxPage = 10_000
	// MaxBatch bounds the items of a batch that is held in memory. A longer one is
	// staged in the database.
	MaxBatch = 10_000
	// MaxBatchBytes bounds the encoding of the same.
	MaxBatchBytes = 2 << 20
	// MinLease is the shortest time for which a claim may be held.
	MinLease = time.Second
	// MaxLease is the longest.
	MaxLease = 12 * time.Hour
)

// Change is what can be done to items.
type Change uint8

// The changes.
const (
	// Add puts the items into the list, with no attempts.
	Add Change = iota + 1
	// Increment adds one to the attempts of those that are there.
	Increment
	// Delete takes those that are there out of the list.
	Delete
)

func (c Change) String() string {
	switch c {
	case Add:
		return "add"
	case Increment:
		return "increment"
	case Delete:
		return "delete"
	}
	return "none"
}

// Entry is an item with its failed attempts.
type Entry struct {
	Item     Item
	Attempts int64
}

// Lease is what a claimer was given: nothing when Claim is empty.
type Lease struct {
	Claim   Claim
	Until   time.Time // by the database's clock
	Entries []Entry   // in the order of their bytes
}

// Buckets is how many items have 0, 1, 2, 3, 4, and 5 or more attempts.
type Buckets [6]int64

// Progress is how a list stands.
type Progress struct {
	Items   int64
	Claimed int64 // of these, under a lease that is not over
	// Attempts tells how many items have how many.
	Attempts Buckets
}
